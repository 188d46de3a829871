"""The memory of a build of the dashboard, so that the next one reads and judges only what changed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from curator_bench.files.codec import from_document, to_document
from curator_bench.report.site import words
from curator_bench.report.site.model import Beside, DriftFacts, GroupFacts, RunFacts, SeriesFacts, SiteEntry, StepFacts


@dataclass(frozen=True, slots=True)
class EntryStatus:
    """The state of an entry, for lists of entries."""

    entry: SiteEntry
    runs: int
    latest: RunFacts
    log: str | None
    durations: tuple[float, ...]
    broken_since: RunFacts | None
    """The first run since the last one that was fine; None if the latest run is fine."""
    broken_sessions: int


@dataclass(frozen=True, slots=True)
class GroupMemory:
    """The judgement of an entry on one machine."""

    mark: str
    file: str
    machine: str | None
    notable: tuple[SeriesFacts, ...]
    """Series that are inconclusive or blind, without their levels."""
    steps: tuple[StepFacts, ...]
    recorded: Any
    drifts: tuple[DriftFacts, ...]
    left_out: tuple[str, ...]
    believed: tuple[float, ...]
    doubted: tuple[float, ...]
    tests: int
    cells: Mapping[str, Any]
    says: Mapping[str, Any]
    """By metric: the word for the newest runs, and what could not have been seen."""

    def holds(self, largest: float) -> bool:
        """Return True if the same steps are reported when this is the largest p-value that is reported."""
        return all(one <= largest for one in self.believed) and all(one > largest for one in self.doubted)


@dataclass(frozen=True, slots=True)
class BlockMemory:
    """A block of runs: its mark, its file, the digest of that, the copies of logs, and the metrics it names."""

    mark: str
    runs: int
    file: str
    digest: str
    logs: tuple[str, ...]
    metrics: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class EntryMemory:
    """An entry as it was written."""

    mark: str
    status: EntryStatus
    original: str
    metrics: tuple[str, ...]
    """The metrics that have charts, and the others, in their order."""
    blocks: tuple[BlockMemory, ...]
    groups: tuple[GroupMemory, ...]
    files: tuple[str, ...]
    """Other files: the page, and what it loads first."""
    linked: tuple[str, ...]
    """Names of the pages of sessions that the page links to."""

    @property
    def all_files(self) -> list[str]:
        of_blocks = [name for block in self.blocks for name in (block.file, *block.logs)]
        return [*self.files, *of_blocks, *(group.file for group in self.groups)]


@dataclass(frozen=True, slots=True)
class PairMemory:
    """Two sessions that were compared: what it depends on, and the number of judgements."""

    mark: str
    judgements: int


@dataclass(frozen=True, slots=True)
class Memory:
    """All that is remembered: of entries by slug, of sessions by uid (their mark), of pairs by the slugs of both."""

    settings: str = ""
    entries: Mapping[str, EntryMemory] = field(default_factory=dict)
    sessions: Mapping[str, str] = field(default_factory=dict)
    pairs: Mapping[str, PairMemory] = field(default_factory=dict)


def remembered(document: Mapping[str, Any], settings: str) -> Memory:
    """Return what the last build remembered; nothing if it had other settings or cannot be understood."""
    if document.get("settings") != settings:
        return Memory(settings)
    try:
        return from_document(Memory, document)
    except ValueError:
        return Memory(settings)


def as_document(memory: Memory) -> dict[str, Any]:
    return to_document(memory)


def of_group(mark: str, file: str, facts: GroupFacts) -> GroupMemory:
    notable = tuple(replace(one, levels=()) for one in facts.series if one.is_blind or one.says == "inconclusive")
    return GroupMemory(
        mark=mark,
        file=file,
        machine=facts.machine,
        notable=notable,
        steps=facts.steps,
        recorded=facts.recorded,
        drifts=facts.drifts,
        left_out=facts.left_out,
        believed=facts.believed,
        doubted=facts.doubted,
        tests=facts.tests,
        cells=facts.cells,
        says={one.metric: [one.says, words.sight(one)] for one in facts.series},
    )


def beside(groups: list[GroupMemory]) -> Beside:
    """Return the p-values and tests of these groups, for the choice of the steps that are reported."""
    p_values = [value for one in groups for value in (*one.believed, *one.doubted)]
    return Beside(p_values, sum(one.tests for one in groups))
