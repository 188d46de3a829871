"""Profiles at the two ends of a bisect or an A/B comparison, for a change of the history between the same commits."""

from __future__ import annotations

from collections import defaultdict
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

from curator_bench.causes.sides import Sides
from curator_bench.causes.what_changed import WhatChanged
from curator_bench.provenance.packages import commits_of_package
from curator_bench.store.profiles import profiled_hunts
from curator_bench.store.queries import EntryKey, PastRun, history

if TYPE_CHECKING:
    from sqlalchemy import Connection


def hunted_sides(connection: Connection, entry: EntryKey, changed: WhatChanged, repo: Path | None) -> Sides | None:
    """Return the profiled runs of hunts at two commits of a change, of which no profiled one is between; None without.

    Of several pairs, it is the one with the fewest commits between, then the newest. `repo` is a checkout that may have
    the commits; where it has not, the order is that of the history.
    """
    hunts = profiled_hunts(connection, entry)
    commits = _commits_of(connection, entry, changed, repo) if hunts else []
    place = {sha: number for number, sha in enumerate(commits)}
    of_kinds: dict[object, dict[int, list[PastRun]]] = defaultdict(lambda: defaultdict(list))
    for run in hunts:
        if run.commit in place:
            of_kinds[run.machine_id, run.series_hash][place[run.commit]].append(run)
    pairs = [
        (second - first, -by_place[second][-1].start.timestamp(), by_place[first], by_place[second])
        for by_place in of_kinds.values()
        for first, second in pairwise(sorted(by_place))
    ]
    if not pairs:
        return None
    *_, before, after = min(pairs, key=lambda pair: pair[:2])
    return Sides(entry, before, after)


def _commits_of(connection: Connection, entry: EntryKey, changed: WhatChanged, repo: Path | None) -> list[str]:
    """Return the commits of a change in their order, from the last before it on."""
    own = next((one for one in changed.commits if not one.of and one.before != one.after), None)
    if own is None:
        return []
    logged = commits_of_package(repo or Path(), "", own.before, own.after)
    if logged is not None:
        return [own.before, *(one.sha for one in reversed(logged))]
    measured = list(dict.fromkeys(run.commit for run in history(connection, entry) if run.commit))
    first, last = (measured.index(sha) if sha in measured else -1 for sha in (own.before, own.after))
    return measured[first : last + 1] if 0 <= first < last else [own.before, own.after]
