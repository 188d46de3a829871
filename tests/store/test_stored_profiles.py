"""Profiles are parts of a run: recorded with it, and never without it."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from curator_bench.importing.exported_runs import read
from curator_bench.importing.importer import Importer
from curator_bench.store.database import Database
from curator_bench.store.exports import export_jsonl
from curator_bench.store.merge import merge
from curator_bench.store.profiles import packed, profiled_runs, profiles_of, unpacked
from curator_bench.store.prune import prune
from curator_bench.values import WAITING, Profile

if TYPE_CHECKING:
    from store.conftest import Bench

TIME = Profile("py-spy", "samples", 12.5, {("app:main", "app:sort", "lib.so:qsortᵉ"): 900, ("app:main", WAITING): 100})
MEMORY = Profile("memray", "bytes", 13.0, {("app:main", "app:load"): 1 << 40})


def read_profiles(database: Database, *uids: str) -> dict[str, tuple[Profile, ...]]:
    with database.reading() as connection:
        assert profiled_runs(connection, uids) == set(profiles_of(connection, uids))
        return profiles_of(connection, uids)


def test_profiles_come_back_as_they_were_recorded(bench: Bench) -> None:
    database = bench.open()
    recorder = bench.recorder(database)
    profiled, without = (recorder.start_run(bench.start(name)) for name in ("with", "without"))
    recorder.finish_run(profiled, bench.end(profiles=(packed(TIME),)))
    recorder.finish_run(without, bench.end())
    assert read_profiles(database, profiled, without, "unknown") == {profiled: (TIME,)}
    recorder.finish_run(profiled, bench.end(profiles=(packed(TIME), packed(MEMORY))))
    assert read_profiles(database, profiled) == {profiled: (MEMORY, TIME)}


def test_a_huge_profile_is_bounded_without_losing_a_sample(bench: Bench) -> None:
    stacks = {tuple(f"module{number}:function{depth}" for depth in range(40)): 1 for number in range(20_000)}
    huge = Profile("py-spy", "samples", 60.0, stacks)
    kept = packed(huge)
    assert len(kept.stacks) < 1_000_000
    found = unpacked(kept)
    assert found is not None
    assert (found.total, len(found.stacks) <= 5_001) == (20_000, True)


@pytest.mark.parametrize("text", ["", "nonsense", "bm9uc2Vuc2U="])
def test_a_row_that_something_else_has_written_is_no_profile(text: str) -> None:
    assert unpacked(replace(packed(TIME), stacks=text)) in (None, Profile("py-spy", "samples", 12.5, {}))


def test_profiles_go_with_their_run(bench: Bench) -> None:
    database = bench.open()
    recorder = bench.recorder(database)
    old, new = (recorder.start_run(bench.start(start=bench.moment + timedelta(days=day))) for day in (0, 9))
    for uid in (old, new):
        recorder.finish_run(uid, bench.end(profiles=(packed(TIME),)))
    prune(database, bench.moment + timedelta(days=5))
    assert len(bench.rows("profile", "run")) == 1
    assert set(read_profiles(database, old, new)) == {new}


def test_profiles_are_merged_with_their_run(two_benches: tuple[Bench, Bench]) -> None:
    here, there = (bench.open() for bench in two_benches)
    recorder = two_benches[0].recorder(here)
    uid = recorder.start_run(two_benches[0].start())
    merge(here, there)
    recorder.finish_run(uid, two_benches[0].end(profiles=(packed(TIME),)))
    for _ in range(2):
        merge(here, there)
        assert read_profiles(there, uid) == {uid: (TIME,)}


def test_profiles_are_exported_and_imported_with_their_run(two_benches: tuple[Bench, Bench], tmp_path: Path) -> None:
    here, there = (bench.open() for bench in two_benches)
    recorder = two_benches[0].recorder(here)
    uid = recorder.start_run(two_benches[0].start())
    recorder.finish_run(uid, two_benches[0].end(profiles=(packed(TIME), packed(MEMORY))))
    lines = BytesIO()
    with here.reading() as connection:
        export_jsonl(connection, lines)
    file = tmp_path / "runs.jsonl"
    file.write_bytes(lines.getvalue())
    taken = Importer(there).add(read(file))
    assert (taken.added, taken.mistakes) == (1, [])
    assert read_profiles(there, uid) == {uid: (MEMORY, TIME)}
