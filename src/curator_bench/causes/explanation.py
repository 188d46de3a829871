"""Explains the difference of two sides by the stages of their runs: a pure function of what was recorded of them.

    found = explain(before, after)          # the runs of each side: `StagedRun`
    lines = stage_wording.text(found)       # or stage_wording.document for JSON

Only worker-seconds make a stage a suspect: those of its functions, and by themselves those of moving its data. Waiting
and backpressure follow from the pace of other stages; they are shown, and judge nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from curator_bench.causes.matched_stages import Match, StagedRun, matches
from curator_bench.causes.stage_work import Figures, Pair, StageWork
from curator_bench.causes.wall_time import Phase, Shape, Side, overlap, phases
from curator_bench.errors import BenchError
from curator_bench.values.stages import StageKind
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
_CHANGED = (Word.REGRESSION, Word.IMPROVEMENT)


@dataclass(frozen=True, slots=True)
class StageChange:
    """One stage, or several that are compared together, on both sides."""

    match: Match
    before: Figures
    after: Figures
    work: Judged | None
    """Judgement of executing, or of all work where executing is not recorded by itself.

    None if only one side has it, nobody recorded its work, or that is too little to count.
    """
    moving: Judged | None
    """Judgement of reading arguments and storing results; None if these are not recorded, or too short to count."""
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
    def worked_s(self) -> tuple[float | None, float | None]:
        """The seconds before and after whose change is `work`."""
        sides = self.before, self.after
        is_known = any(one.executing_s is not None for one in sides)
        before, after = (one.executing_s if is_known else one.work_s for one in sides)
        return before, after

    @property
    def is_moving_named(self) -> bool:
        """True if not its functions but moving its data takes more or less than before."""
        is_own = self.work is not None and self.work.word in _CHANGED
        return not is_own and self.moving is not None and self.moving.word in _CHANGED

    @property
    def judged(self) -> Judged | None:
        """The judgement of its work, or of moving its data if only that changed."""
        return self.moving if self.is_moving_named else self.work

    @property
    def word(self) -> Word | None:
        return self.judged.word if self.judged else None

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
        return _explained(StageWork.of(found, *sides), limit)


def _explained(measured: StageWork, limit: float) -> Explanation:
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
            joint.work.get(match.name),
            joint.moving.get(match.name),
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


def _around_others(measured: StageWork) -> frozenset[str]:
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
    work: Mapping[str, Judged]
    moving: Mapping[str, Judged]
    shared: Judged | None


def _judge(measured: StageWork, limit: float) -> _JointByName:
    """Judge the work of the stages that both sides have, and moving their data by itself.

    New workers first load their functions when they read arguments, which differs much from run to run: it must not
    hide what the functions do.
    """
    known = measured.before.stages
    both = [match.name for match in measured.matches if match.before and match.after and match.name in known]
    executing = _to_judge(both, measured.executing)
    total = sum(float(np.nanmean(pair[0])) for pair in executing.values())
    # Stages of microseconds scatter by themselves, and would say nothing of the noise of the others.
    least = _LEAST_SHARE * total
    moving = _large(_to_judge(both, measured.moving), least)
    confidence = 1 - (1 - CONFIDENCE) / (2 if moving else 1)
    parts, shared = _judge_pairs(_large(executing, least), least, limit, confidence)
    return _JointByName(parts, _judge_pairs(moving, least, limit, confidence)[0], shared)


def _to_judge(names: Sequence[str], pairs: Mapping[str, Pair]) -> dict[str, Pair]:
    found = {name: pairs[name] for name in names if name in pairs}
    return {name: pair for name, pair in found.items() if all(np.nanmean(side) > 0 for side in pair)}


def _large(pairs: Mapping[str, Pair], least: float) -> dict[str, Pair]:
    return {name: pair for name, pair in pairs.items() if max(float(np.nanmean(side)) for side in pair) >= least}


def _judge_pairs(
    pairs: Mapping[str, Pair], least: float, limit: float, confidence: float
) -> tuple[Mapping[str, Judged], Judged | None]:
    """Judge pairs together. A change of less than `least` seconds does not count."""
    parts = [
        Part(_positive(old), _positive(new), max(limit, least / float(np.nanmean(old)))) for old, new in pairs.values()
    ]
    joint: Joint = joint_changes(parts, confidence=confidence, limit=limit)
    judged = [_of_means(one, *pair) for one, pair in zip(joint.parts, pairs.values(), strict=True)]
    return dict(zip(pairs, judged, strict=True)), joint.shared


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
