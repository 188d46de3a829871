"""Explains the difference of two sides by the stages of their runs: a pure function of what was recorded of them.

    found = explain(before, after)          # the runs of each side: `StagedRun`
    lines = stage_wording.text(found)       # or stage_wording.document for JSON

Only worker-seconds make a stage a suspect. Waiting and backpressure follow from the pace of other stages; they are
shown, and judge nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from curator_bench.causes.matched_stages import Match, StagedRun, matches
from curator_bench.causes.wall_time import Phase, Shape, Side, Times, overlap, phases
from curator_bench.errors import BenchError
from curator_bench.values.stages import Stage, StageKind
from curator_bench.verdict.cases import MIN_EFFECT
from curator_bench.verdict.distributions import Floats
from curator_bench.verdict.joint import (
    CONFIDENCE,
    FEWEST,
    Difference,
    Joint,
    Judged,
    Part,
    difference,
    joint_changes,
    more_runs,
)
from curator_bench.verdict.judgement import Word
from curator_bench.verdict.noise import rows_may_be_empty

_LEAST_SHARE = 0.003
"""A stage must change by this share of all work to count: micro-stages double without anybody noticing."""
_CREATION = ".__init__"
_CHANGED = (Word.REGRESSION, Word.IMPROVEMENT)


@dataclass(frozen=True, slots=True)
class Figures:
    """The means of a stage over the runs of one side. None stands for what was not recorded."""

    work_s: float | None = None
    """Worker-seconds: executing, reading arguments and storing results."""
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
class StageChange:
    """One stage, or several that are compared together, on both sides."""

    match: Match
    before: Figures
    after: Figures
    work: Judged | None
    """None if only one side has it, nobody recorded its work, or that is too little to count."""
    wall: Difference | None
    """Its part in the difference of wall time, in seconds; None if it has none, as it did not limit anything."""
    phase: int = 0
    """Number of the phase it belongs to."""
    limits: tuple[bool, bool] = (False, False)
    """True if it was the bottleneck of its phase before, and after."""
    is_around_others: bool = False
    """True for a step of the script that waits for tasks: its time is theirs, and nothing is said of it."""

    @property
    def name(self) -> str:
        return self.match.name

    @property
    def word(self) -> Word | None:
        return self.work.word if self.work else None

    @property
    def gained_work_s(self) -> float:
        return (self.after.work_s or 0.0) - (self.before.work_s or 0.0)


@dataclass(frozen=True, slots=True)
class Explanation:
    """The difference of two sides, split over stages. Times are means over the runs of a side."""

    runs: tuple[int, int]
    wall: Difference
    change: Judged
    """The change of wall time."""
    stages: tuple[StageChange, ...]
    """Suspects first: regressions or improvements, the largest part of the wall time first; then in their order."""
    shapes: tuple[Shape, ...]
    """Division of the time of each phase among its stages."""
    shared: Judged | None
    """Gain that most stages share, such as of a slower machine; None if they did not move together."""
    unexplained: Difference
    """Rest of the difference of wall time, in seconds."""
    decides: str = ""
    """For a difference that no stage explains yet: how many more runs would tell."""

    @property
    def named(self) -> tuple[StageChange, ...]:
        """The stages that are named as causes, the most important first."""
        return tuple(stage for stage in self.stages if stage.word in _CHANGED)


def explain(before: Sequence[StagedRun], after: Sequence[StagedRun], *, limit: float = MIN_EFFECT) -> Explanation:
    """Split the difference of two sides over their stages. `limit` is the smallest change of a stage that counts.

    Raises BenchError if no run of a side has stages.
    """
    for runs, side in ((before, "before"), (after, "after")):
        if not any(run.stages for run in runs):
            raise BenchError(f"no run {side} has recorded stages")
    sides = [run for run in before if run.stages], [run for run in after if run.stages]
    found = matches(*sides)
    with rows_may_be_empty():
        return _explained(_Measured.of(found, *sides), limit)


@dataclass(frozen=True, slots=True)
class _Measured:
    """Worker-seconds of each stage in each run."""

    matches: Sequence[Match]
    before: Side
    after: Side
    figures: Sequence[tuple[Figures, Figures]]

    @classmethod
    def of(cls, found: Sequence[Match], before: Sequence[StagedRun], after: Sequence[StagedRun]) -> _Measured:
        kinds = [_Kinds.of(match, before, after) for match in found]
        sides = [_side(found, kinds, runs, is_after=at == 1) for at, runs in enumerate((before, after))]
        figures = [
            (
                _figures(match, sides[0].stages[match.name], before, is_after=False),
                _figures(match, sides[1].stages[match.name], after, is_after=True),
            )
            for match in found
        ]
        return cls(found, sides[0], sides[1], figures)


@dataclass(frozen=True, slots=True)
class _Kinds:
    """The times that make up the work of a stage: those that all of its runs recorded, so that sides are alike."""

    names: tuple[str, ...]

    @classmethod
    def of(cls, match: Match, before: Sequence[StagedRun], after: Sequence[StagedRun]) -> _Kinds:
        found = [stage for run in before for stage in match.of_run(run, is_after=False)]
        found += [stage for run in after for stage in match.of_run(run, is_after=True)]
        # To create an actor, a new process first reads its code: that is start-up, and differs much from run to run.
        is_start = any(stage.kind is StageKind.ACTOR and stage.name.endswith(_CREATION) for stage in found)
        names = ("executing_s",) if is_start else ("executing_s", "reading_s", "storing_s")
        return cls(tuple(name for name in names if all(getattr(stage, name) is not None for stage in found)))

    def work(self, stages: Sequence[Stage]) -> float | None:
        if "executing_s" in self.names:
            return float(sum(getattr(stage, name) for stage in stages for name in self.names))
        return _sum(stages, lambda stage: stage.active_s)


def _side(found: Sequence[Match], kinds: Sequence[_Kinds], runs: Sequence[StagedRun], *, is_after: bool) -> Side:
    return Side(
        _numbers([run.wall_s for run in runs]),
        _numbers([run.cpus for run in runs]),
        {match.name: _times(match, kind, runs, is_after=is_after) for match, kind in zip(found, kinds, strict=True)},
    )


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


def _figures(match: Match, times: Times, runs: Sequence[StagedRun], *, is_after: bool) -> Figures:
    of_runs = [stages for run in runs if (stages := match.of_run(run, is_after=is_after))]
    if not of_runs or not (match.after if is_after else match.before):
        return Figures()
    work, active = _mean(times.work), _mean(times.active)
    return Figures(
        work_s=work,
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


def _explained(measured: _Measured, limit: float) -> Explanation:
    around = _around_others(measured)
    measured = replace(measured, before=_without(measured.before, around), after=_without(measured.after, around))
    before, after = measured.before, measured.after
    joint = _judge(measured, limit)
    found = phases(before, after)
    parts = {name: part for phase in found for name, part in phase.parts.items()}
    # The wall time and what is left of it are two more intervals that hold together with those of the stages.
    own = 1 - (1 - CONFIDENCE) / (len(parts) + 1)
    rest = [side.wall - _total(parts, at, side) for at, side in enumerate((before, after))]
    stages = [
        StageChange(
            match,
            *figures,
            joint.get(match.name),
            _difference(parts[match.name], own) if match.name in parts else None,
            *_place(match.name, found),
            is_around_others=match.name in around,
        )
        for match, figures in zip(measured.matches, measured.figures, strict=True)
    ]
    wall = difference(before.wall, after.wall)
    change = _of_means(joint_changes([Part(before.wall, after.wall, limit)]).parts[0], before.wall, after.wall)
    explanation = Explanation(
        runs=(len(before.wall), len(after.wall)),
        wall=wall,
        change=change,
        stages=tuple(sorted(stages, key=lambda stage: _order(stage, wall.value))),
        shapes=tuple(phase.shape for phase in found),
        shared=joint.shared,
        unexplained=_difference((rest[0], rest[1]), own),
    )
    return replace(explanation, decides=_decides(explanation, limit))


def _around_others(measured: _Measured) -> frozenset[str]:
    """Return the steps of the script during which tasks of Ray ran: the script only waited for them."""
    kinds = {match.name: (match.after or match.before)[0].kind for match in measured.matches}
    others = [name for name, kind in kinds.items() if kind is not StageKind.STEP]
    return frozenset(
        name
        for name, kind in kinds.items()
        if kind is StageKind.STEP
        and any(
            overlap(side.stages[name], side.stages[other])
            for side in (measured.before, measured.after)
            for other in others
        )
    )


def _without(side: Side, names: frozenset[str]) -> Side:
    return replace(side, stages={name: times for name, times in side.stages.items() if name not in names})


@dataclass(frozen=True, slots=True)
class _JointByName:
    parts: Mapping[str, Judged]
    shared: Judged | None

    def get(self, name: str) -> Judged | None:
        return self.parts.get(name)


def _judge(measured: _Measured, limit: float) -> _JointByName:
    """Judge the work of the stages that both sides have."""
    known = measured.before.stages
    both = [match.name for match in measured.matches if match.before and match.after and match.name in known]
    pairs = {name: (measured.before.stages[name].work, measured.after.stages[name].work) for name in both}
    pairs = {name: pair for name, pair in pairs.items() if all(np.nanmean(side) > 0 for side in pair)}
    total = sum(float(np.nanmean(pair[0])) for pair in pairs.values())
    # Stages of microseconds scatter by themselves, and would say nothing of the noise of the others.
    least = _LEAST_SHARE * total
    pairs = {name: pair for name, pair in pairs.items() if max(float(np.nanmean(side)) for side in pair) >= least}
    parts = [
        Part(_positive(old), _positive(new), max(limit, least / float(np.nanmean(old)))) for old, new in pairs.values()
    ]
    joint: Joint = joint_changes(parts, limit=limit)
    judged = [_of_means(one, *pair) for one, pair in zip(joint.parts, pairs.values(), strict=True)]
    return _JointByName(dict(zip(pairs, judged, strict=True)), joint.shared)


def _of_means(judged: Judged, before: Floats, after: Floats) -> Judged:
    """Return the judgement with the change of the means: these are shown beside it, and add up.

    Its verdict and interval stay those of the levels, which single outliers hardly move.
    """
    return replace(judged, change=float(np.nanmean(after) / np.nanmean(before)) - 1)


def _positive(values: Floats) -> Floats:
    """Return the values for a logarithm: a run that recorded no work of a stage tells nothing of it."""
    return np.where(values > 0, values, np.nan)


def _total(parts: Mapping[str, tuple[Floats, Floats]], at: int, side: Side) -> Floats:
    total: Floats = np.sum([np.zeros(len(side.wall)), *(np.nan_to_num(part[at]) for part in parts.values())], axis=0)
    return total


def _difference(part: tuple[Floats, Floats], confidence: float) -> Difference:
    known = [side[np.isfinite(side)] for side in part]
    return difference(known[0], known[1], confidence=confidence)


def _place(name: str, found: Sequence[Phase]) -> tuple[int, tuple[bool, bool]]:
    for number, phase in enumerate(found):
        if name in phase.stages:
            old, new = phase.bottlenecks or ("", "")
            return number, (name == old, name == new)
    return 0, (False, False)


def _order(stage: StageChange, gained: float) -> tuple[int, float, float]:
    """Sort suspects first: those that move the wall time as it moved, the largest part first."""
    is_one_sided = not (stage.match.before and stage.match.after)
    if stage.word not in _CHANGED and not is_one_sided:
        return 1, 0.0, 0.0
    sign = -1.0 if gained < 0 else 1.0
    return 0, -sign * (stage.wall.value if stage.wall else 0.0), -sign * stage.gained_work_s


def _decides(found: Explanation, limit: float) -> str:
    """Return how many more runs would decide; empty if a stage is named already, or nothing changed."""
    judged = [stage for stage in found.stages if stage.work is not None]
    doubtful = [stage for stage in judged if stage.word is Word.INCONCLUSIVE]
    if found.named or (found.change.word is Word.NO_CHANGE and not doubtful):
        return ""
    if not doubtful:
        return ""
    largest = max(doubtful, key=lambda stage: abs(stage.gained_work_s))
    assert largest.work is not None
    more = more_runs(largest.work, len(judged))
    if largest.work.error is None:
        few = [count < FEWEST for count in largest.work.runs]
        where = "each side" if all(few) else "the earlier side" if few[0] else "the later side"
        runs = f"{more} more {'run' if more == 1 else 'runs'}"
        return f"{runs} on {where} at least: fewer than {FEWEST} do not tell the noise"
    if more is None:
        return f"too noisy to tell: even 30 more runs on each side would not make {largest.name} certain"
    return f"{more} more {'run' if more == 1 else 'runs'} on each side would tell whether it is {largest.name}"
