"""Finds which stages of two sides are the same: by name, by the operators fused into them, or by their place."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum

from curator_bench.values.stages import Stage, StageKind


class Presence(StrEnum):
    """Which sides have a stage."""

    BOTH = "both"
    NEW = "new"
    GONE = "gone"
    RENAMED = "renamed"
    """Gone under one name, and new under another at the same place with as many tasks."""
    FUSED = "fused differently"
    """The same operators, but fused into other stages."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StagedRun:
    """The stages of one run, and the time that they are to explain."""

    stages: Sequence[Stage]
    wall_s: float
    cpus: float | None = None
    """CPUs of the cluster, for which the tasks of all stages compete; None if unknown."""


@dataclass(frozen=True, slots=True)
class StageName:
    """Identity of a stage."""

    kind: StageKind
    name: str
    parts: tuple[str, ...] = ()

    @property
    def operators(self) -> frozenset[str]:
        return frozenset(self.parts or (self.name,))


@dataclass(frozen=True, slots=True)
class Match:
    """The stages of each side that are compared with each other: usually one of each."""

    presence: Presence
    before: tuple[StageName, ...]
    after: tuple[StageName, ...]

    @property
    def name(self) -> str:
        old, new = (" + ".join(one.name for one in side) for side in (self.before, self.after))
        return f"{old} → {new}" if old and new and old != new else new or old

    def of_run(self, run: StagedRun, *, is_after: bool) -> list[Stage]:
        """Return the stages of a run that belong here; empty if the run has not all of them."""
        wanted = {(one.kind, one.name) for one in (self.after if is_after else self.before)}
        found = [stage for stage in run.stages if (stage.kind, stage.name) in wanted]
        return found if {(stage.kind, stage.name) for stage in found} == wanted else []


def matches(before: Sequence[StagedRun], after: Sequence[StagedRun]) -> list[Match]:
    """Match the stages of two sides, in the order of the later side; those that are gone come last."""
    old, new = _names(before), _names(after)
    known = {(one.kind, one.name): one for one in old}
    both = {one: known[one.kind, one.name] for one in new if (one.kind, one.name) in known}
    gone = [one for one in old if one not in both.values()]
    come = [one for one in new if one not in both]
    fused = list(_fused(gone, come))
    regrouped = {one for match in fused for one in (*match.before, *match.after)}
    gone, come = ([one for one in side if one not in regrouped] for side in (gone, come))
    renamed = dict(_renamed(before, after, gone, come))
    named = {one: Match(Presence.BOTH, (other,), (one,)) for one, other in both.items()}
    named |= {one: match for match in fused for one in match.after}
    named |= {one: Match(Presence.RENAMED, (other,), (one,)) for one, other in renamed.items()}
    in_order = [named.get(one) or Match(Presence.NEW, (), (one,)) for one in new]
    left = [Match(Presence.GONE, (one,), ()) for one in gone if one not in renamed.values()]
    return [*dict.fromkeys(in_order), *left]


def _names(runs: Sequence[StagedRun]) -> list[StageName]:
    """Return the stages that at least half of the runs have, in the order in which they begin."""
    counted: dict[tuple[StageKind, str], list[Stage]] = {}
    for run in runs:
        for key, stage in {(stage.kind, stage.name): stage for stage in run.stages}.items():
            counted.setdefault(key, []).append(stage)
    usual = [found for found in counted.values() if 2 * len(found) >= len(runs)]
    return [StageName(found[-1].kind, found[-1].name, found[-1].parts) for found in sorted(usual, key=_start)]


def _start(stages: Sequence[Stage]) -> float:
    known = [stage.started_s for stage in stages if stage.started_s is not None]
    return sum(known) / len(known) if known else 0.0


def _fused(gone: Sequence[StageName], come: Sequence[StageName]) -> Iterator[Match]:
    """Yield the groups of stages that share operators, each as large as needed to hold them whole."""
    left = list(come)
    waiting = list(gone)
    while waiting:
        before, after, operators = [waiting.pop(0)], list[StageName](), set[str]()
        operators |= before[0].operators
        while True:
            more = [one for one in left if one.kind is before[0].kind and one.operators & operators]
            also = [one for one in waiting if one.kind is before[0].kind and one.operators & operators]
            if not more and not also:
                break
            for one in more:
                left.remove(one)
            for one in also:
                waiting.remove(one)
            after += more
            before += also
            operators |= {name for one in (*more, *also) for name in one.operators}
        if after:
            yield Match(Presence.FUSED, tuple(before), tuple(after))


def _renamed(
    before: Sequence[StagedRun], after: Sequence[StagedRun], gone: Sequence[StageName], come: Sequence[StageName]
) -> Iterator[tuple[StageName, StageName]]:
    """Yield pairs of a new stage and the gone one at its place: of one kind, in the same order, with as many tasks."""
    left = list(gone)
    for one in come:
        for other in left:
            if other.kind is one.kind and _tasks(before, other) == _tasks(after, one):
                yield one, other
                left = left[left.index(other) + 1 :]
                break


def _tasks(runs: Sequence[StagedRun], name: StageName) -> int:
    counts = sorted(
        stage.count for run in runs for stage in run.stages if (stage.kind, stage.name) == (name.kind, name.name)
    )
    return counts[len(counts) // 2]
