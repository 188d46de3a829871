"""Profiles of runs: how they are packed into rows and lines, and the query of the profiles of many runs at once."""

from __future__ import annotations

import base64
import binascii
import zlib
from collections.abc import Collection, Iterable, Sequence
from dataclasses import asdict, fields
from itertools import islice
from typing import Any

from sqlalchemy import Connection, and_, select

from curator_bench.profiles import MOST_TEXT, bounded, collapsed, stacks_of
from curator_bench.store.queries import EntryKey, PastRun, history
from curator_bench.store.records import PackedProfile
from curator_bench.store.tables import PROFILES, RUNS
from curator_bench.values import Profile, ProfileUnit

_RUNS_AT_ONCE = 100
_LEVEL = 9
_MOST_BYTES = 8 * MOST_TEXT
"""Bytes of unpacked stacks at which reading stops. Others may have written the row."""
_NAMES = tuple(field.name for field in fields(PackedProfile))
_COLUMNS = tuple(PROFILES.c[name] for name in _NAMES)
assert tuple(PROFILES.c.keys()) == ("run", *_NAMES)  # `packed_of` reads a row by position


def profiles_of(connection: Connection, uids: Collection[str]) -> dict[str, tuple[Profile, ...]]:
    """Read the profiles of these runs by uid of the run, in the order of their profilers' names.

    A run without profiles, or one that is not recorded, is not among them.
    """
    found: dict[str, list[Profile]] = {}
    statement = select(RUNS.c.uid, *_COLUMNS).join(RUNS, RUNS.c.id == PROFILES.c.run)
    rest = iter(dict.fromkeys(uids))
    while some := list(islice(rest, _RUNS_AT_ONCE)):
        chosen = statement.where(RUNS.c.uid.in_(some)).order_by(PROFILES.c.run, PROFILES.c.profiler)
        for uid, *values in connection.execute(chosen):
            if (profile := unpacked(packed_of(values))) is not None:
                found.setdefault(uid, []).append(profile)
    return {uid: tuple(profiles) for uid, profiles in found.items()}


def profiled_runs(connection: Connection, uids: Collection[str]) -> set[str]:
    """Return which of these runs have a profile, without reading one."""
    found: set[str] = set()
    rest = iter(dict.fromkeys(uids))
    while some := list(islice(rest, 10 * _RUNS_AT_ONCE)):
        chosen = select(RUNS.c.uid).join(PROFILES, RUNS.c.id == PROFILES.c.run).where(RUNS.c.uid.in_(some)).distinct()
        found.update(connection.scalars(chosen))
    return found


def profiled_hunts(connection: Connection, entry: EntryKey) -> list[PastRun]:
    """Read the runs of an entry that have a profile and are no history, in order."""
    return history(connection, entry, hunts=True, among=RUNS.c.id.in_(select(PROFILES.c.run)))


def profiled_hunt_ids(connection: Connection) -> dict[EntryKey, list[int]]:
    """Return the ids of the rows of all runs that have a profile and are no history, oldest first, by entry."""
    found: dict[EntryKey, list[int]] = {}
    is_profiled = and_(RUNS.c.hunt.is_not(None), RUNS.c.id.in_(select(PROFILES.c.run)))
    chosen = select(RUNS.c.id, RUNS.c.name, RUNS.c.path).where(is_profiled).order_by(RUNS.c.start, RUNS.c.id)
    for number, name, path in connection.execute(chosen):
        found.setdefault(EntryKey(name, path or ""), []).append(number)
    return found


def profiled_ids(connection: Connection) -> set[int]:
    """Return the ids of the rows of all runs that have a profile."""
    return set(connection.scalars(select(PROFILES.c.run).distinct()))


def packed(profile: Profile) -> PackedProfile:
    """Pack a profile for a row. The stacks of a large one are bounded."""
    text = collapsed(bounded(profile).stacks).encode("utf-8", "replace")
    stacks = base64.b64encode(zlib.compress(text, _LEVEL)).decode("ascii")
    return PackedProfile(profile.profiler, profile.unit, profile.seconds, stacks)


def unpacked(row: PackedProfile) -> Profile | None:
    """Inverse of `packed`; None if the row holds something else."""
    try:
        text = zlib.decompressobj().decompress(base64.b64decode(row.stacks, validate=True), _MOST_BYTES)
    except (binascii.Error, zlib.error, ValueError):
        return None
    unit: ProfileUnit = "bytes" if row.unit == "bytes" else "samples"
    return Profile(row.profiler, unit, row.seconds, stacks_of(text.decode("utf-8", "replace")))


def packed_of(values: Sequence[Any]) -> PackedProfile:
    """Build a packed profile from its row without `run`."""
    return PackedProfile(**dict(zip(_NAMES, values, strict=True)))


def rows_of(run: int, profiles: Iterable[PackedProfile]) -> list[dict[str, Any]]:
    """Values of the rows of a run's profiles: one of each profiler, the last one."""
    return list({one.profiler: {"run": run, **asdict(one)} for one in profiles}.values())
