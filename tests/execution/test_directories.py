"""The folders of a run: empty when it begins, linked to where large things go, without scratch when it has ended."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from curator_bench.execution.directories import attempt_top, prepare, with_entry_dir
from curator_bench.values import Verdict

if TYPE_CHECKING:
    from execution.conftest import Desk

LARGE = ("logs", "scratch", "ray_cluster", "artifacts")
FILLS = "[Path(sys.argv[1], d, 'file').write_text('x') for d in ('scratch', 'artifacts', 'ray_cluster')]; write({})"


def names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


def test_a_run_leaves_the_layout_that_is_documented(desk: Desk) -> None:
    desk.run(FILLS, "{session_entry_dir}")
    own = {"command.txt", "status.json", "memory.csv"}
    own |= {"logs", "benchmark_results", "artifacts", "ray_cluster"}
    assert names(desk.entry_dir) == own
    assert names(desk.entry_dir / "benchmark_results") == {"params.json", "metrics.json"}
    assert names(desk.entry_dir / "artifacts") == names(desk.entry_dir / "ray_cluster") == {"file"}


def test_scratch_is_there_for_the_script_and_kept_when_asked_for(desk: Desk) -> None:
    assert desk.run(FILLS, "{session_entry_dir}", delete_scratch=False).verdict is Verdict.PASSED
    assert names(desk.entry_dir / "scratch") == {"file"}


def test_scratch_of_a_run_that_failed_is_removed_too(desk: Desk) -> None:
    desk.run(FILLS + "; sys.exit(1)", "{session_entry_dir}")
    assert not (desk.entry_dir / "scratch").exists()


def test_nothing_of_an_earlier_run_is_left_when_one_begins(desk: Desk) -> None:
    plan = desk.plan(FILLS)
    directories = prepare(plan, desk.entry_dir)
    for folder in (*LARGE, "benchmark_results", "repeat_2", "warmup_1", "attempt_2/logs"):
        (desk.entry_dir / folder).mkdir(parents=True, exist_ok=True)
        (desk.entry_dir / folder / "old").touch()
    for file in ("results.json", "gpustats.csv", "memory.csv", "command.txt", "status.json"):
        (desk.entry_dir / file).touch()
    (desk.entry_dir / "results.jsonl").write_text("what was finished stays\n")
    prepare(plan, desk.entry_dir)
    assert not list(desk.entry_dir.rglob("old"))
    assert names(desk.entry_dir) == {*LARGE, "benchmark_results", "results.jsonl"}
    assert directories.scratch.is_dir()


def test_large_things_go_to_the_artifacts_folder_and_are_found_from_the_entrys(desk: Desk) -> None:
    artifacts = desk.folder / "big" / "session" / "entry"
    result = desk.run(FILLS, "{session_entry_dir}", artifacts_dir=str(artifacts))
    assert result.verdict is Verdict.PASSED
    assert names(artifacts) == {"logs", "ray_cluster", "artifacts"}
    for name in names(artifacts):
        assert (desk.entry_dir / name).resolve() == artifacts / name
    assert (artifacts / "artifacts" / "file").read_text() == "x"
    assert not (desk.entry_dir / "scratch").is_symlink()  # removed at both ends
    assert not (desk.entry_dir / "benchmark_results").is_symlink()


def test_every_repeat_has_its_large_things_there(desk: Desk) -> None:
    artifacts = desk.folder / "big"
    desk.run(FILLS, "{session_entry_dir}", artifacts_dir=str(artifacts), repeat=2, delete_scratch=False)
    assert names(artifacts / "repeat_2") == set(LARGE)
    assert (desk.entry_dir / "repeat_2" / "scratch" / "file").resolve() == artifacts / "repeat_2" / "scratch" / "file"
    desk.run(FILLS, "{session_entry_dir}", artifacts_dir=str(artifacts))
    assert not (artifacts / "repeat_2").exists()


@pytest.mark.parametrize("first", [True, False])
def test_an_artifacts_folder_may_come_and_go_between_two_runs(desk: Desk, first: bool) -> None:
    artifacts = {"artifacts_dir": str(desk.folder / "big")}
    desk.run(FILLS, "{session_entry_dir}", **(artifacts if first else {}))
    result = desk.run(FILLS, "{session_entry_dir}", **({} if first else artifacts))
    assert result.verdict is Verdict.PASSED
    assert (desk.entry_dir / "logs").is_symlink() != first


def test_an_attempt_has_a_folder_of_its_own_but_the_first(desk: Desk) -> None:
    plan = desk.plan("write({})")
    assert attempt_top(plan) == desk.entry_dir
    assert attempt_top(replace(plan, attempt=3)) == desk.entry_dir / "attempt_3"


def test_only_the_placeholder_is_filled_in(tmp_path: Path) -> None:
    text = with_entry_dir('{"session_entry_dir": 1} {other} {{x}} {session_entry_dir} {session}', Path("/r"))
    assert text == '{"session_entry_dir": 1} {other} {{x}} /r /r'
