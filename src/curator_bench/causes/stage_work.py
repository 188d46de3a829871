"""Measures the stages of two sides: worker-seconds, times and counts, in the same way on both.

found = StageWork.of(matches(before, after), before, after)
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from curator_bench.causes.matched_stages import Match, StagedRun
from curator_bench.causes.wall_time import Side, Times
from curator_bench.values.stages import Stage, StageKind
from curator_bench.verdict.distributions import Floats

_CREATION = ".__init__"
Pair = tuple[Floats, Floats]
"""Seconds in each run before, and in each run after; NaN where they are not known."""


@dataclass(frozen=True, slots=True)
class Figures:
    """The means of a stage over the runs of one side. None stands for what was not recorded."""

    work_s: float | None = None
    """Worker-seconds, of which `executing_s` in the functions, and `moving_s` reading arguments and storing results."""
    executing_s: float | None = None
    moving_s: float | None = None
    active_s: float | None = None
    tasks: float | None = None
    at_once: float | None = None
    """Number of its tasks that executed at a time, while any did."""
    waiting_s: float | None = None
    waits_missing: float = 0.0
    """Number of tasks whose waiting was lost."""
    backpressure_s: float | None = None
    bytes_out: float | None = None


@dataclass(frozen=True, slots=True)
class StageWork:
    """The work of each matched stage in the runs of both sides."""

    matches: Sequence[Match]
    before: Side
    after: Side
    executing: Mapping[str, Pair]
    """Worker-seconds in the functions of each stage, or all of its work where they are not recorded by themselves."""
    moving: Mapping[str, Pair]
    """Worker-seconds of reading arguments and storing results, of the stages that recorded them."""
    figures: Sequence[tuple[Figures, Figures]]

    @classmethod
    def of(cls, found: Sequence[Match], before: Sequence[StagedRun], after: Sequence[StagedRun]) -> StageWork:
        kinds = {match.name: _Kinds.of(match, before, after) for match in found}
        sides = [_side(found, kinds, runs, is_after=at == 1) for at, runs in enumerate((before, after))]

        def pairs(of: Callable[[_Kinds, Sequence[Stage]], float | None]) -> dict[str, Pair]:
            return {
                match.name: (
                    _of_runs(match, kinds[match.name], before, of, is_after=False),
                    _of_runs(match, kinds[match.name], after, of, is_after=True),
                )
                for match in found
            }

        figures = [
            (
                _figures(match, kinds[match.name], sides[0].stages[match.name], before, is_after=False),
                _figures(match, kinds[match.name], sides[1].stages[match.name], after, is_after=True),
            )
            for match in found
        ]
        moving = {name: pair for name, pair in pairs(_Kinds.moving).items() if kinds[name].moved}
        return cls(found, sides[0], sides[1], pairs(_Kinds.own), moving, figures)


@dataclass(frozen=True, slots=True)
class _Kinds:
    """The times that make up the work of a stage: those that all of its runs recorded, so that sides are alike."""

    is_executing_known: bool
    moved: tuple[str, ...]

    @classmethod
    def of(cls, match: Match, before: Sequence[StagedRun], after: Sequence[StagedRun]) -> _Kinds:
        found = [stage for run in before for stage in match.of_run(run, is_after=False)]
        found += [stage for run in after for stage in match.of_run(run, is_after=True)]
        if any(stage.executing_s is None for stage in found):
            return cls(False, ())
        # To create an actor, a new process first reads its code: that is start-up, and differs much from run to run.
        if any(stage.kind is StageKind.ACTOR and stage.name.endswith(_CREATION) for stage in found):
            return cls(True, ())
        names = ("reading_s", "storing_s")
        return cls(True, tuple(name for name in names if all(getattr(stage, name) is not None for stage in found)))

    def own(self, stages: Sequence[Stage]) -> float | None:
        """Return the time in the functions; the time in which they were active, where nobody recorded more."""
        return _sum(stages, lambda stage: stage.executing_s if self.is_executing_known else stage.active_s)

    def moving(self, stages: Sequence[Stage]) -> float | None:
        return float(sum(getattr(stage, name) for stage in stages for name in self.moved))

    def work(self, stages: Sequence[Stage]) -> float | None:
        own = self.own(stages)
        return None if own is None else own + (self.moving(stages) or 0.0)


def _side(found: Sequence[Match], kinds: Mapping[str, _Kinds], runs: Sequence[StagedRun], *, is_after: bool) -> Side:
    return Side(
        _numbers([run.wall_s for run in runs]),
        _numbers([run.cpus for run in runs]),
        {match.name: _times(match, kinds[match.name], runs, is_after=is_after) for match in found},
    )


def _of_runs(
    match: Match,
    kinds: _Kinds,
    runs: Sequence[StagedRun],
    of: Callable[[_Kinds, Sequence[Stage]], float | None],
    *,
    is_after: bool,
) -> Floats:
    found = [match.of_run(run, is_after=is_after) for run in runs]
    return _numbers([of(kinds, stages) if stages else None for stages in found])


def _times(match: Match, kinds: _Kinds, runs: Sequence[StagedRun], *, is_after: bool) -> Times:
    if not (match.after if is_after else match.before):
        nothing, unknown = np.zeros(len(runs)), np.full(len(runs), np.nan)
        return Times(nothing, nothing, unknown, unknown)
    of_runs = [match.of_run(run, is_after=is_after) for run in runs]
    return Times(
        _numbers([kinds.work(stages) if stages else None for stages in of_runs]),
        _numbers([_active(stages) for stages in of_runs]),
        _numbers([min(_known(stages, lambda one: one.started_s), default=None) for stages in of_runs]),
        _numbers([max(_known(stages, lambda one: one.ended_s), default=None) for stages in of_runs]),
    )


def _numbers(values: Sequence[float | None]) -> Floats:
    return np.array([np.nan if value is None else value for value in values], dtype=np.float64)


def _known(stages: Sequence[Stage], figure: Callable[[Stage], float | None]) -> list[float]:
    return [value for stage in stages if (value := figure(stage)) is not None]


def _sum(stages: Sequence[Stage], figure: Callable[[Stage], float | None]) -> float | None:
    """Return the sum of a figure; None if it is unknown of any stage."""
    known = _known(stages, figure)
    return sum(known) if stages and len(known) == len(stages) else None


def _active(stages: Sequence[Stage]) -> float | None:
    """Return the time of several stages that are compared as one: they may be active at the same time."""
    total = _sum(stages, lambda one: one.active_s)
    if total is None or len(stages) == 1:
        return total
    starts, ends = _known(stages, lambda one: one.started_s), _known(stages, lambda one: one.ended_s)
    return min(total, max(ends) - min(starts)) if starts and ends else total


def _figures(match: Match, kinds: _Kinds, times: Times, runs: Sequence[StagedRun], *, is_after: bool) -> Figures:
    of_runs = [stages for run in runs if (stages := match.of_run(run, is_after=is_after))]
    if not of_runs or not (match.after if is_after else match.before):
        return Figures()
    work, active = _mean(times.work), _mean(times.active)
    return Figures(
        work_s=work,
        executing_s=_mean(_numbers([kinds.own(stages) for stages in of_runs])) if kinds.is_executing_known else None,
        moving_s=_mean(_numbers([kinds.moving(stages) for stages in of_runs])) if kinds.moved else None,
        active_s=active,
        tasks=_mean_of(of_runs, lambda one: one.count),
        at_once=work / active if work is not None and active else None,
        waiting_s=_mean_of(of_runs, lambda one: one.waiting_s),
        waits_missing=_mean_of(of_runs, lambda one: one.waits_missing) or 0.0,
        backpressure_s=_mean_of(of_runs, lambda one: one.backpressure_s),
        bytes_out=_mean_of(of_runs, lambda one: one.bytes_out),
    )


def _mean(values: Floats) -> float | None:
    return float(np.nanmean(values)) if np.isfinite(values).any() else None


def _mean_of(of_runs: Sequence[Sequence[Stage]], figure: Callable[[Stage], float | None]) -> float | None:
    return _mean(_numbers([_sum(stages, figure) for stages in of_runs]))
