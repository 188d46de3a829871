"""What follows a run of an entry: another run, and why, or its judgement.

Pure: no pytest, no clock, no files. Runs of this process and runs of a fleet ask the same function.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum

from curator_bench.values import Verdict

LEAST_BUDGET_S = 600.0
SHARE_OF_SESSION = 0.2


class Next(StrEnum):
    """What comes next for an entry that has run."""

    RETRY = "retry"
    """The run ended in an `error`, and the entry allows another attempt."""
    RUN_AGAIN = "run again"
    """The user asked for more runs of each entry."""
    CONFIRM = "confirm"
    """A gate fails or is inconclusive: measuring again may decide it."""
    JUDGE = "judge"


class GateState(StrEnum):
    """What the gates of an entry say of all its runs together."""

    PASSED = "passed"
    FAILED = "failed"
    INCONCLUSIVE = "inconclusive"


@dataclass(frozen=True, slots=True)
class Allowance:
    """How often an entry may run, by the reason for another run."""

    retries: int = 0
    runs: int = 1
    confirm: int = 0
    confirm_budget_s: float | None = None
    """The longest time for confirming in all; None leaves it to the session: ten minutes or a fifth of it."""
    shares: int = 1
    """The number of processes that share that time."""


@dataclass(frozen=True, slots=True)
class Spent:
    """How long the runs of all entries took so far, and how much of it was spent on confirming.

    `confirming_s` holds the expected seconds of those that are still under way.
    """

    runs_s: float = 0.0
    confirming_s: float = 0.0


NOTHING_SPENT = Spent()


@dataclass(frozen=True, slots=True)
class Happened:
    """The runs of one entry so far."""

    errors: int = 0
    measured: int = 0
    """Runs that passed or failed their requirements, gates apart."""
    verdict: Verdict = Verdict.PASSED
    """The verdict of the last run, before its gates."""
    seconds: float = 0.0
    """The duration of the last run."""
    is_hopeless: bool = False
    """Another attempt would end in the same error."""
    gates: GateState | None = None
    """None where nobody asked the gates, or there are none."""

    def after(self, verdict: Verdict, seconds: float, *, is_hopeless: bool = False) -> Happened:
        """Count one more run in."""
        return replace(
            self,
            errors=self.errors + (verdict is Verdict.ERROR),
            measured=self.measured + _is_measured(verdict),
            verdict=verdict,
            seconds=seconds,
            is_hopeless=is_hopeless,
            gates=None,
        )


@dataclass(frozen=True, slots=True)
class Decision:
    next: Next
    reason: str = ""
    """For people: why it runs again, or why it was not measured again. Empty where there is nothing to explain."""


_JUDGE = Decision(Next.JUDGE)


def next_step(happened: Happened, allowed: Allowance, spent: Spent = NOTHING_SPENT) -> Decision:
    """Decide what comes after the last run of an entry."""
    if happened.verdict is Verdict.ERROR:
        may_retry = happened.errors <= allowed.retries and not happened.is_hopeless
        return Decision(Next.RETRY, "it ended in an error") if may_retry else _JUDGE
    if not _is_measured(happened.verdict):
        return _JUDGE
    if happened.measured < allowed.runs:
        return Decision(Next.RUN_AGAIN, f"run {happened.measured + 1} of {allowed.runs}")
    return _confirm(happened, allowed, spent) if asks_gates(happened, allowed) else _JUDGE


def asks_gates(happened: Happened, allowed: Allowance) -> bool:
    """True where the gates decide what comes next; until then they need not be asked."""
    is_last = happened.measured >= allowed.runs
    return happened.verdict is Verdict.PASSED and is_last and happened.measured - allowed.runs < allowed.confirm


def is_confirming(happened: Happened, allowed: Allowance) -> bool:
    """True of a run that is only there to confirm what the gates said of the runs before it."""
    return happened.measured > allowed.runs


def budget_s(allowed: Allowance, spent: Spent) -> float:
    """The seconds that confirming may take of this process, from its start until now."""
    if allowed.confirm_budget_s is not None:
        return allowed.confirm_budget_s / allowed.shares
    return max(LEAST_BUDGET_S / allowed.shares, SHARE_OF_SESSION * spent.runs_s)


def _confirm(happened: Happened, allowed: Allowance, spent: Spent) -> Decision:
    """One run that fails is always worth another; several that fail together are certain."""
    is_first = happened.measured == allowed.runs
    is_open = happened.gates is GateState.INCONCLUSIVE or (happened.gates is GateState.FAILED and is_first)
    if not is_open:
        return _JUDGE
    budget = budget_s(allowed, spent)
    if spent.confirming_s + happened.seconds > budget:
        reason = f"not measured again: {happened.seconds:.0f} s more would exceed the budget of {budget:.0f} s"
        return Decision(Next.JUDGE, f"{reason} (--bench-confirm-budget)")
    return Decision(Next.CONFIRM, f"its gates {'fail' if happened.gates is GateState.FAILED else 'are inconclusive'}")


def _is_measured(verdict: Verdict) -> bool:
    return verdict in (Verdict.PASSED, Verdict.FAILED)
