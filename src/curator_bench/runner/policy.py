"""Decides what follows a run of an entry: another run, with the reason, or its judgement.

The functions are pure: no pytest, no clock, no files. Runs of this process and of a fleet use the same ones.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum

from curator_bench.values import Verdict

LEAST_BUDGET_S = 600.0
SHARE_OF_SESSION = 0.2


class Next(StrEnum):
    """The next step for an entry after a run."""

    RETRY = "retry"
    """The run ended in an `error`, and the entry allows another attempt."""
    RUN_AGAIN = "run again"
    """The user asked for more runs of each entry."""
    CONFIRM = "confirm"
    """A gate failed or is inconclusive, and another measurement may decide it."""
    MEASURE_AGAIN = "measure again"
    """The machine did something else during the run, which therefore does not count."""
    PROFILE = "profile"
    """The entry is measured. It is to be profiled in runs that do not count, and then judged."""
    JUDGE = "judge"


class GateState(StrEnum):
    """The state of an entry's gates over all its runs."""

    PASSED = "passed"
    FAILED = "failed"
    INCONCLUSIVE = "inconclusive"


class Profile(StrEnum):
    """When an entry is profiled."""

    NEVER = "never"
    ALWAYS = "always"
    REGRESSION = "regression"
    """If one of its gates has failed, and another measurement has confirmed it."""


@dataclass(frozen=True, slots=True)
class Allowance:
    """The number of runs an entry may have, by reason."""

    retries: int = 0
    runs: int = 1
    confirm: int = 0
    confirm_budget_s: float | None = None
    """The longest time for all confirming runs; None means ten minutes or a fifth of the session."""
    shares: int = 1
    """The number of processes that share this time."""
    profile: Profile = Profile.NEVER
    """When the entry is profiled."""


@dataclass(frozen=True, slots=True)
class Spent:
    """The time of all runs so far, and the part of it spent on confirming.

    `confirming_s` includes the expected seconds of confirming runs in progress.
    """

    runs_s: float = 0.0
    confirming_s: float = 0.0


NOTHING_SPENT = Spent()


@dataclass(frozen=True, slots=True)
class Happened:
    """The runs of one entry so far."""

    errors: int = 0
    measured: int = 0
    """Runs that passed or failed their requirements, regardless of gates."""
    disturbed: int = 0
    """Those of them that were disturbed."""
    verdict: Verdict = Verdict.PASSED
    """The verdict of the last run, before its gates."""
    seconds: float = 0.0
    """The duration of the last run."""
    is_hopeless: bool = False
    """True if another attempt would end in the same error."""
    gates: GateState | None = None
    """None if the gates were not asked, or if there are none."""

    @property
    def undisturbed(self) -> int:
        return self.measured - self.disturbed

    def after(
        self, verdict: Verdict, seconds: float, *, is_hopeless: bool = False, is_disturbed: bool = False
    ) -> Happened:
        """Return the state after one more run."""
        return replace(
            self,
            errors=self.errors + (verdict is Verdict.ERROR),
            measured=self.measured + _is_measured(verdict),
            disturbed=self.disturbed + (is_disturbed and _is_measured(verdict)),
            verdict=verdict,
            seconds=seconds,
            is_hopeless=is_hopeless,
            gates=None,
        )


@dataclass(frozen=True, slots=True)
class Decision:
    next: Next
    reason: str = ""
    """Text for the user: why the entry runs again, or why it does not. Empty if that needs no explanation."""


_JUDGE = Decision(Next.JUDGE)


def next_step(happened: Happened, allowed: Allowance, spent: Spent = NOTHING_SPENT) -> Decision:
    """Decide what comes after the last run of an entry."""
    decision = _next_measurement(happened, allowed, spent)
    if decision.next is Next.JUDGE and _is_profiled(happened, allowed):
        return Decision(Next.PROFILE, decision.reason)
    return decision


def _next_measurement(happened: Happened, allowed: Allowance, spent: Spent) -> Decision:
    if happened.verdict is Verdict.ERROR:
        may_retry = happened.errors <= allowed.retries and not happened.is_hopeless
        return Decision(Next.RETRY, "it ended in an error") if may_retry else _JUDGE
    if not _is_measured(happened.verdict):
        return _JUDGE
    if happened.measured < allowed.runs:
        return Decision(Next.RUN_AGAIN, f"run {happened.measured + 1} of {allowed.runs}")
    if lacks_undisturbed_run(happened, allowed):
        return _within_budget(Decision(Next.MEASURE_AGAIN, "it was disturbed"), happened, allowed, spent)
    return _confirm(happened, allowed, spent) if asks_gates(happened, allowed) else _JUDGE


def lacks_undisturbed_run(happened: Happened, allowed: Allowance) -> bool:
    """True if a run is to replace a disturbed one: as often as gates may be confirmed, and besides that."""
    return bool(happened.disturbed) and happened.undisturbed < allowed.runs and _may_replace(happened, allowed)


def _may_replace(happened: Happened, allowed: Allowance) -> bool:
    return happened.disturbed <= allowed.confirm and allowed.confirm > 0


def asks_gates(happened: Happened, allowed: Allowance) -> bool:
    """True if the next step depends on the gates."""
    is_last = happened.measured >= allowed.runs and not lacks_undisturbed_run(happened, allowed)
    may_confirm = happened.undisturbed - allowed.runs < allowed.confirm and _may_replace(happened, allowed)
    return happened.verdict is Verdict.PASSED and is_last and may_confirm


def asks_gates_to_profile(happened: Happened, allowed: Allowance) -> bool:
    """True if the gates decide whether the entry is profiled."""
    is_last = happened.measured >= allowed.runs and not lacks_undisturbed_run(happened, allowed)
    return allowed.profile is Profile.REGRESSION and happened.verdict is Verdict.PASSED and is_last


def _is_profiled(happened: Happened, allowed: Allowance) -> bool:
    """True if an entry that is not measured again is profiled. Without confirmations, a failure is final at once."""
    if allowed.profile is Profile.REGRESSION:
        is_confirmed = happened.undisturbed > allowed.runs or allowed.confirm == 0
        return happened.gates is GateState.FAILED and is_confirmed
    return allowed.profile is Profile.ALWAYS and _is_measured(happened.verdict)


def is_confirming(happened: Happened, allowed: Allowance) -> bool:
    """True if the last run was only there to confirm the gates of the runs before it."""
    return happened.measured > allowed.runs


def budget_s(allowed: Allowance, spent: Spent) -> float:
    """Return the seconds that confirming may take in this process, from its start until now."""
    if allowed.confirm_budget_s is not None:
        return allowed.confirm_budget_s / allowed.shares
    return max(LEAST_BUDGET_S / allowed.shares, SHARE_OF_SESSION * spent.runs_s)


def _confirm(happened: Happened, allowed: Allowance, spent: Spent) -> Decision:
    """Confirm inconclusive gates, and a first failure. Several runs that fail together are certain."""
    is_first = happened.undisturbed <= allowed.runs
    is_open = happened.gates is GateState.INCONCLUSIVE or (happened.gates is GateState.FAILED and is_first)
    if not is_open:
        return _JUDGE
    reason = f"its gates {'fail' if happened.gates is GateState.FAILED else 'are inconclusive'}"
    return _within_budget(Decision(Next.CONFIRM, reason), happened, allowed, spent)


def _within_budget(decision: Decision, happened: Happened, allowed: Allowance, spent: Spent) -> Decision:
    budget = budget_s(allowed, spent)
    if spent.confirming_s + happened.seconds > budget:
        reason = f"not measured again: {happened.seconds:.0f} s more would exceed the budget of {budget:.0f} s"
        return Decision(Next.JUDGE, f"{reason} (--bench-confirm-budget)")
    return decision


def _is_measured(verdict: Verdict) -> bool:
    return verdict in (Verdict.PASSED, Verdict.FAILED)
