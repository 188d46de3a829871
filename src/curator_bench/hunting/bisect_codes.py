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


def code_of(told: JunitOutcome, *, skip_broken: bool) -> tuple[int, str]:
    """Return the exit code and the reason."""
    if told.has_broken_conftest:
        return STOP + 4, "a conftest.py cannot be loaded"
    if told.uncollected and told.exit_code in (_FAILED, _INTERRUPTED):
        return CANNOT_BE_JUDGED, "a file could not be collected"
    if Verdict.INTERRUPTED in told.verdicts:
        return INTERRUPTED, "a run was interrupted"
    if told.exit_code in (_PASSED, _FAILED) and told.verdicts:
        return _of_verdicts(told, skip_broken=skip_broken)
    if told.exit_code in (_PASSED, _FAILED):
        return STOP + 3, "pytest did not say what it ran"
    code = told.exit_code if told.exit_code >= STOP else STOP + told.exit_code
    return code, _OF_PYTEST.get(told.exit_code, f"pytest ended with exit code {told.exit_code}")


def _of_verdicts(told: JunitOutcome, *, skip_broken: bool) -> tuple[int, str]:
    """Judge by the verdicts. One failed benchmark makes the commit bad, whatever the others are."""
    if Verdict.FAILED in told.verdicts:
        return BAD, "failed"
    if Verdict.ERROR in told.verdicts:
        return CANNOT_BE_JUDGED, "error"
    broken = [verdict for verdict in _BROKEN if verdict in told.verdicts]
    if broken:
        return (CANNOT_BE_JUDGED if skip_broken else BAD), str(broken[0])
    if told.exit_code != _PASSED:
        return STOP + 3, f"pytest ended with exit code {told.exit_code} though nothing failed"
    if Verdict.PASSED not in told.verdicts:
        return CANNOT_BE_JUDGED, "skipped"
    if told.inconclusive:
        return CANNOT_BE_JUDGED, f"inconclusive: {', '.join(told.inconclusive)}"
    return GOOD, "passed"
