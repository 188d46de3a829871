"""The exit code for `git bisect run`. A commit that could not be judged must get neither the good nor the bad code."""

from __future__ import annotations

from curator_bench.hunting.junit import JunitOutcome
from curator_bench.values import Verdict

GOOD, BAD, CANNOT_BE_JUDGED = 0, 1, 125
STOP = 128
INTERRUPTED = STOP + 2
_PASSED, _FAILED, _INTERRUPTED = 0, 1, 2
_BROKEN = (Verdict.CRASHED, Verdict.TIMEOUT)
_OF_PYTEST = {
    2: "it was interrupted",
    3: "an internal error of pytest",
    4: "pytest does not accept these arguments",
    5: "no such benchmark: nothing ran",
}


def code_of(outcome: JunitOutcome, *, skip_broken: bool) -> tuple[int, str]:
    """Return the exit code and the reason."""
    if outcome.has_broken_conftest:
        return STOP + 4, "a conftest.py cannot be loaded"
    if outcome.uncollected and outcome.exit_code in (_FAILED, _INTERRUPTED):
        return CANNOT_BE_JUDGED, "a file could not be collected"
    if Verdict.INTERRUPTED in outcome.verdicts:
        return INTERRUPTED, "a run was interrupted"
    if outcome.exit_code in (_PASSED, _FAILED) and outcome.verdicts:
        return _of_verdicts(outcome, skip_broken=skip_broken)
    if outcome.exit_code in (_PASSED, _FAILED):
        return STOP + 3, "pytest did not say what it ran"
    code = outcome.exit_code if outcome.exit_code >= STOP else STOP + outcome.exit_code
    return code, _OF_PYTEST.get(outcome.exit_code, f"pytest ended with exit code {outcome.exit_code}")


def _of_verdicts(outcome: JunitOutcome, *, skip_broken: bool) -> tuple[int, str]:
    """Judge by the verdicts. One failed benchmark makes the commit bad, whatever the others are."""
    if Verdict.FAILED in outcome.verdicts:
        return BAD, "failed"
    if Verdict.ERROR in outcome.verdicts:
        return CANNOT_BE_JUDGED, "error"
    broken = [verdict for verdict in _BROKEN if verdict in outcome.verdicts]
    if broken:
        return (CANNOT_BE_JUDGED if skip_broken else BAD), str(broken[0])
    if outcome.exit_code != _PASSED:
        return STOP + 3, f"pytest ended with exit code {outcome.exit_code} though nothing failed"
    if Verdict.PASSED not in outcome.verdicts:
        return CANNOT_BE_JUDGED, "skipped"
    if outcome.inconclusive:
        return CANNOT_BE_JUDGED, f"inconclusive: {', '.join(outcome.inconclusive)}"
    return GOOD, "passed"
