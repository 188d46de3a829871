"""Runs that are not judged: disturbed ones, and those from before a change of arguments, datasets or parameters."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from curator_bench.store.all_series import Group, Series
from curator_bench.store.series import identities
from curator_bench.verdict.comparable import Origin, difference

if TYPE_CHECKING:
    from sqlalchemy import Connection


@dataclass(frozen=True, slots=True)
class LeftOut:
    """Runs of one entry on one machine that are not judged: those of a series that has ended, or disturbed ones."""

    entry: str
    path: str
    machine_id: str | None
    runs: int
    why: str

    @property
    def text(self) -> str:
        on = f" on {self.machine_id}" if self.machine_id else ""
        runs = "1 run" if self.runs == 1 else f"{self.runs} runs"
        return f"{runs} of {self.entry}{on}, because {self.why}"


def left_out(connection: Connection, series: Sequence[Series]) -> list[LeftOut]:
    """Return the series that have ended, with the reason, in the order they are given."""
    counts: dict[Group, dict[str | None, int]] = defaultdict(lambda: defaultdict(int))
    newest: dict[Group, str | None] = {}
    for one in series:
        group = one.entry.name, one.entry.path, one.machine_id
        if one.is_newest:
            newest[group] = one.series_hash
        else:
            runs = counts[group]
            runs[one.series_hash] = max(runs[one.series_hash], len(one.runs) + one.runs_without)
    return list(_told(connection, counts, newest)) if counts else []


def disturbed(counts: Mapping[Group, int]) -> list[LeftOut]:
    """Return the disturbed runs, given their number for each entry and machine."""
    why = "they were disturbed (`--bench-disturbed count` lets later ones count)"
    return [LeftOut(name, path, machine, runs, why) for (name, path, machine), runs in counts.items()]


def _told(
    connection: Connection, counts: dict[Group, dict[str | None, int]], newest: dict[Group, str | None]
) -> Iterator[LeftOut]:
    known = identities(connection, {hashed for ended in counts.values() for hashed in ended} | set(newest.values()))
    for group, ended in counts.items():
        name, path, machine = group
        own = newest.get(group)
        now = Origin(name, own, machine, known.get(own or "", {}))
        for hashed, runs in ended.items():
            then = Origin(name, hashed, machine, known.get(hashed or "", {}))
            yield LeftOut(name, path, machine, runs, difference(now, then))
