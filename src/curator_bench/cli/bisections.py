"""The parts that both kinds of `curator-bench bisect` share: the request, the session, the exit codes, some words."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import click

from curator_bench.cli import tables
from curator_bench.errors import BenchError

if TYPE_CHECKING:
    from curator_bench.hunting.bench import Bench
    from curator_bench.hunting.end_profiles import ProfileRequest
    from curator_bench.hunting.trials import Tried
    from curator_bench.verdict.intervals import Change
    from curator_bench.verdict.judgement import Word
    from curator_bench.verdict.sequential import SequentialPlan

_NOT_WORSE, _IN_DOUBT = 3, 4
MORE_RUNS = (
    "The same command with a higher --max-runs continues. `curator-bench doctor` says what makes this machine noisy."
)

BUDGET_SPENT = "The time of --budget is over. The same command continues."


@dataclass(frozen=True, slots=True)
class Asked:
    """The user's request, but for what is bisected."""

    bench: Bench
    plan: SequentialPlan
    deadline: float
    profile: ProfileRequest | None
    is_fresh: bool
    as_json: bool

    def between(self, good: str, bad: str) -> Bench:
        """Return what measures, with the reason of its sessions."""
        self.bench.refuse_unknown()
        return replace(self.bench, reason=f"bisect of {self.bench.metric} between {good} and {bad}")


def direction_of(metric: str, declared: str | None) -> Any:
    """Return the better direction of a metric. Raises BenchError if it is not known."""
    from curator_bench.verdict.direction import better_of

    found = better_of(metric, declared)
    if found is None:
        raise BenchError(
            f"it is not known whether {metric} should be small or large: add --better less or --better more"
        )
    return found


def tell(text: str) -> None:
    click.echo(text, err=True)


@contextmanager
def ending_in_order(note: str = "") -> Iterator[None]:
    """End with the right exit code if the user stops it, or the budget is spent. `note` says what is restored."""
    from curator_bench.hunting.children import Stopped, stoppable
    from curator_bench.hunting.trials import BudgetSpent

    try:
        with stoppable():
            yield
    except Stopped as stopped:
        tell(f"{stopped}; {note}the same command continues")
        sys.exit(stopped.exit_code)
    except BudgetSpent:
        tell(BUDGET_SPENT)
        sys.exit(_IN_DOUBT)


def session_of(bench: Bench, key: str, about: str, *, is_fresh: bool) -> str:
    """Return the prefix of the session names, and print it: of an earlier bisect with the same key, or a new one."""
    from curator_bench.hunting.session_names import newest_number

    prefix = f"bisect-{key}"
    newest = newest_number(bench.database, prefix)
    is_new = is_fresh or not newest
    session = f"{prefix}-{newest + 1 if is_new else newest}"
    tell(f"{about}; sessions {session}-…")
    if not is_new:
        tell("an earlier bisect is continued: its runs count, and only missing ones are measured (--fresh: all anew)")
    return session


def code_of(difference: Word, *, is_found: bool) -> int:
    """Return the exit code."""
    from curator_bench.verdict.judgement import Word

    if is_found:
        return 0
    return _NOT_WORSE if difference in (Word.NO_CHANGE, Word.IMPROVEMENT) else _IN_DOUBT


def change_to(before: Tried[Any], after: Tried[Any]) -> Any:
    """Return the change from one to another; None if one has no runs."""
    import numpy as np

    from curator_bench.verdict.intervals import change_between
    from curator_bench.verdict.noise import BLOCK

    if not (before.runs.values and after.runs.values):
        return None
    return change_between(np.array(before.runs.values[-BLOCK:]), np.array(after.runs.values[-BLOCK:]))


def not_begun(
    difference: Word, change: Change, metric: str, plan: SequentialPlan, names: tuple[str, str]
) -> Iterator[str]:
    """Yield why bisecting did not begin. `names` are words for the good and the bad end."""
    from curator_bench.verdict.judgement import Word

    good, bad = names
    why = {
        Word.IMPROVEMENT: f"{bad} is better than {good}",
        Word.NO_CHANGE: f"the measured difference is below {tables.share(plan.min_effect)}",
    }.get(difference, f"{plan.most} runs of each do not decide whether {bad} is worse")
    yield f"{difference}: {why} ({metric} {tables.change(change.change)}, interval {tables.interval(change.interval)})"
    yield MORE_RUNS if difference is Word.INCONCLUSIVE else "There is nothing to bisect."
