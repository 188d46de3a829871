"""Files of a run that come home in parcels, from a folder that nobody at home can see."""

from __future__ import annotations

import asyncio
import os
from dataclasses import replace
from pathlib import Path

import pytest

from curator_bench.fleet.board import Board
from curator_bench.fleet.file_transfer import Arrivals, Kind, Piece, Problems, send_home, warning_of
from curator_bench.values import Plan, Profiling

MIB = 1 << 20


def plan_in(folder: Path, **changes: object) -> Plan:
    session = folder / "s"
    own = Plan("e", "s", str(session), str(session / "e"), "python", "x.py", (), str(folder), uid="u")
    return replace(own, **changes)  # type: ignore[arg-type]


def left(plan: Plan, files: dict[str, bytes]) -> None:
    for name, content in files.items():
        path = Path(plan.entry_dir, name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)


def sent_home(away: Plan, home: Plan) -> Problems:
    arrivals = Arrivals()
    there, here = away.session_dir, home.session_dir
    try:
        return send_home(away, lambda parcel: arrivals.write(home, parcel), lambda text: text.replace(there, here))
    finally:
        arrivals.close(home.uid)


def files_of(folder: str | Path) -> dict[str, bytes]:
    return {
        path.relative_to(folder).as_posix(): path.read_bytes() for path in Path(folder).rglob("*") if path.is_file()
    }


@pytest.fixture
def away(tmp_path: Path) -> Plan:
    return plan_in(tmp_path / "away")


@pytest.fixture
def home(tmp_path: Path) -> Plan:
    return plan_in(tmp_path / "home")


def test_files_of_any_size_and_number_come_home(away: Plan, home: Plan) -> None:
    files = {
        "artifacts/huge": os.urandom(23 * MIB + 17),
        "artifacts/of_one_parcel": os.urandom(4 * MIB),
        "artifacts/empty": b"",
        "artifacts/scratch/kept": b"the name of a folder is not all",
        "logs/stdouterr.log": b"at work",
        "repeat_2/metrics.json": b"{}",
        **{f"artifacts/many/{number}": os.urandom(64_000) for number in range(1200)},
    }
    left(away, {**files, "scratch/x": b"deleted", "repeat_2/scratch/x": b"deleted"})
    os.chmod(Path(away.entry_dir, "artifacts", "empty"), 0o755)
    Path(away.entry_dir, "artifacts", "folder").mkdir()
    Path(away.entry_dir, "artifacts", "link").symlink_to("many/7")
    Path(away.entry_dir, "artifacts", "folder_link").symlink_to(Path(away.entry_dir, "logs"))
    assert sent_home(away, home) == {}
    found = files_of(home.entry_dir)
    assert found.pop("artifacts/link") == files["artifacts/many/7"]
    assert found == files
    assert os.readlink(Path(home.entry_dir, "artifacts", "folder_link")) == f"{home.entry_dir}/logs"
    assert Path(home.entry_dir, "artifacts", "folder").is_dir()
    assert os.access(Path(home.entry_dir, "artifacts", "empty"), os.X_OK)
    assert not list(Path(home.entry_dir).rglob("scratch/x"))


def test_scratch_that_is_not_deleted_comes_home(away: Plan, home: Plan) -> None:
    left(away, {"scratch/x": b"kept"})
    assert sent_home(replace(away, delete_scratch=False), replace(home, delete_scratch=False)) == {}
    assert files_of(home.entry_dir) == {"scratch/x": b"kept"}


def test_large_things_go_to_the_disk_that_is_meant_for_them(away: Plan, home: Plan, tmp_path: Path) -> None:
    left(away, {"logs/a": b"1", "artifacts/b": b"2", "repeat_2/artifacts/c": b"3", "params.json": b"{}"})
    assert sent_home(away, replace(home, artifacts_dir=str(tmp_path / "disk"))) == {}
    assert files_of(tmp_path / "disk") == {"logs/a": b"1", "artifacts/b": b"2", "repeat_2/artifacts/c": b"3"}
    assert Path(home.entry_dir, "logs").is_symlink()
    assert Path(home.entry_dir, "repeat_2", "artifacts", "c").read_bytes() == b"3"


def test_what_comes_home_takes_the_place_of_an_earlier_run_but_for_its_lines_and_its_claim(
    away: Plan, home: Plan
) -> None:
    left(home, {"logs/out.log": b"old", "repeat_2/logs/out.log": b"old", "results.jsonl": b"first", "claim.json": b"c"})
    left(away, {"logs/out.log": b"new", "results.jsonl": b"a script's", "claim.json": b"a script's"})
    assert sent_home(away, home) == {}
    assert files_of(home.entry_dir) == {"logs/out.log": b"new", "results.jsonl": b"first", "claim.json": b"c"}


def test_a_second_attempt_leaves_the_files_of_the_first(away: Plan, home: Plan) -> None:
    left(home, {"logs/out.log": b"first"})
    left(away, {"attempt_2/logs/out.log": b"second"})
    assert sent_home(replace(away, attempt=2), replace(home, attempt=2)) == {}
    assert files_of(home.entry_dir) == {"logs/out.log": b"first", "attempt_2/logs/out.log": b"second"}


def test_a_file_that_cannot_be_written_is_named_and_the_others_come_home(away: Plan, home: Plan) -> None:
    left(home, {"other/x/y": b"a folder in its place"})
    left(away, {"other/x": os.urandom(9 * MIB), "other/z": b"z"})
    problems = sent_home(away, home)
    assert list(problems) == ["other/x"]
    assert files_of(home.entry_dir) == {"other/x/y": b"a folder in its place", "other/z": b"z"}
    assert "could not be copied from host: other/x (" in warning_of(problems, "host")


def test_nothing_that_arrives_leads_out_of_the_folder_of_the_run(home: Plan, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    arrivals = Arrivals()
    parcel = [
        Piece("link", Kind.LINK, os.fsencode(outside)),
        Piece("link/x", Kind.FILE, b"through the link"),
        Piece("../../x", Kind.FILE, b"up"),
        Piece(f"{outside}/y", Kind.FILE, b"anywhere"),
    ]
    assert sorted(arrivals.write(home, parcel)) == sorted(["link/x", "../../x", f"{outside}/y"])
    assert not list(outside.iterdir())


def test_a_parcel_that_comes_twice_is_written_once(home: Plan) -> None:
    arrivals = Arrivals()
    for piece in [Piece("x", Kind.FILE, b"ab"), Piece("x", Kind.FILE, b"ab"), Piece("x", Kind.FILE, b"cd", 2)]:
        for _ in range(2):
            assert arrivals.write(home, [piece]) == {}
    assert Path(home.entry_dir, "x").read_bytes() == b"abcd"


def test_the_board_answers_a_parcel_when_the_driver_has_written_it() -> None:
    async def exchange() -> tuple[list[str], Problems]:
        board = Board()
        delivering = asyncio.ensure_future(board.deliver("u", [Piece("x", Kind.FILE, b"1")]))
        taken = await board.parcels({})
        names = [piece.name for _, parcel in taken.values() for piece in parcel]
        assert not delivering.done()
        asking = asyncio.ensure_future(board.parcels({key: {"x": "no room"} for key in taken}))
        problems = await delivering
        asking.cancel()
        return names, problems

    assert asyncio.run(exchange()) == (["x"], {"x": "no room"})


def test_profiles_come_home_also_where_artifacts_are_kept_elsewhere(away: Plan, home: Plan, tmp_path: Path) -> None:
    """An extra run writes them into the folder of the run that it profiles, which came home before."""
    home = replace(home, artifacts_dir=str(tmp_path / "big" / "s" / "e"), attempt=2)
    away = replace(away, attempt=2)
    left(away, {"attempt_2/artifacts/own": b"of the run"})
    assert sent_home(away, home) == {}
    profiling = Profiling("py-spy", 1)
    away, home = replace(away, profiling=profiling), replace(home, profiling=profiling)
    stacks = {"attempt_2/artifacts/profiles/py-spy/stacks.txt": b"a;b 3\n", "attempt_2/profile_1/logs/x": b"log"}
    left(away, stacks)
    assert sent_home(away, home) == {}
    found = files_of(tmp_path / "big" / "s" / "e")
    assert found == {**stacks, "attempt_2/artifacts/own": b"of the run"}
    assert Path(home.entry_dir, *next(iter(stacks)).split("/")).read_bytes() == b"a;b 3\n", "through the link"
    planted = tmp_path / "planted"
    planted.mkdir()
    (tmp_path / "big/s/e/attempt_2/artifacts/profiles").rename(tmp_path / "moved")
    (tmp_path / "big/s/e/attempt_2/artifacts/profiles").symlink_to(planted)
    sent_home(away, home)
    assert not list(planted.iterdir()), "no link of a script is followed"
