"""Disks that are full or cannot be written: a clear error for the entries they concern, and the session goes on."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from end_to_end.conftest import Outcome, Project

FILLS = """
import json, sys, time
from pathlib import Path
results = Path(sys.argv[-1])
results.joinpath("params.json").write_text("{}")
if sys.argv[1] == "output":
    for _ in range(100):
        sys.stdout.write("x" * 100_000)
        sys.stdout.flush()
elif sys.argv[1] == "metrics":
    Path(sys.argv[2], "scratch", "big").open("wb").write(b"x" * 50_000_000)
results.joinpath("metrics.json").write_text(json.dumps({"docs": 1}))
"""


@pytest.fixture
def mount(tmp_path: Path) -> Iterator[Callable[..., Path]]:
    """Small file systems of their own."""
    mounted: list[Path] = []

    def mount(size: str) -> Path:
        point = tmp_path / f"disk-{len(mounted)}"
        point.mkdir()
        done = subprocess.run(
            ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(point)], capture_output=True, text=True
        )
        if done.returncode:
            pytest.skip(f"no file system may be mounted here: {done.stderr.strip()}")
        mounted.append(point)
        return point

    yield mount
    for point in mounted:
        subprocess.run(["umount", "--lazy", str(point)], check=True)


def remount(point: Path, how: str) -> None:
    subprocess.run(["mount", "-o", f"remount,{how}", str(point)], check=True)


def went_on(outcome: Outcome) -> None:
    """It came to its end as a session does, whatever became of its entries."""
    assert outcome.code == pytest.ExitCode.TESTS_FAILED
    assert "INTERNALERROR" not in outcome.output
    assert "Traceback" not in outcome.output
    assert outcome.has("ENTRY", "Session: ")


@pytest.mark.parametrize("what", ["output", "metrics"])
def test_a_script_that_fills_the_disk_is_an_error_that_says_so(
    project: Project, mount: Callable[..., Path], what: str
) -> None:
    disk = mount("4m")
    project.write("script.py", FILLS)
    entries = [project.entry("fills", f"{what} {{session_entry_dir}}", env={"PYTHONUNBUFFERED": "1"})]
    project.matrix(*entries, project.entry("after", "nothing"), delete_scratch=True)
    outcome = project.run("--bench-results", str(disk))
    went_on(outcome)
    assert outcome.has(f"fills: error: the disk of {disk}/s/fills is full")
    if what == "output":  # a log is kept
        assert outcome.has(f"after: error: No space left on device: {disk}/s/after")
    else:  # scratch is removed
        assert outcome.has("after: passed")
    assert max(map(len, outcome.lines)) < 2000


def test_a_full_disk_is_a_clear_error_for_every_entry_and_is_forgotten_when_there_is_room(
    project: Project, mount: Callable[..., Path]
) -> None:
    disk = mount("1m")
    with (disk / "full").open("wb") as file, pytest.raises(OSError, match="No space left"):
        file.write(b"x" * 2_000_000)
    project.matrix(project.entry("one"), project.entry("two"))
    outcome = project.run("--bench-results", str(disk))
    went_on(outcome)
    for name in ("one", "two"):
        assert outcome.has(f"{name}: error: No space left on device: {disk}")
    assert outcome.has("summary.json could not be written: [Errno 28] No space left on device")
    (disk / "full").unlink()
    remount(disk, "size=20m")
    assert project.run("--bench-results", str(disk)).code == 0
    assert list((disk / "s" / "env").glob("*.json"))


def test_results_that_cannot_be_written_are_one_message_before_anything_runs(
    project: Project, mount: Callable[..., Path]
) -> None:
    disk = mount("20m")
    project.matrix(project.entry("one"), project.entry("two"))
    assert project.run("--bench-results", str(disk)).code == 0
    remount(disk, "ro")
    outcome = project.run("--bench-results", str(disk))
    assert outcome.code == pytest.ExitCode.USAGE_ERROR
    assert outcome.has(f"results cannot be written to {disk}"), outcome.output
    assert "Traceback" not in outcome.output
    assert not (disk / "s" / "one" / "logs").is_symlink()
