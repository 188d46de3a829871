from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import pytest
from other_user import needs_a_second_user, run

from curator_bench.cluster.environment import CLUSTER_VARIABLE
from curator_bench.cluster.temp_dirs import make_temp_dir, remove_leftovers, remove_temp_dir
from curator_bench.measure.processes import Mark

PLANTS_A_NOTE = """
folder, note, mode = sys.argv[1:]
os.umask(0)
os.mkdir(folder, int(mode, 8))
open(folder + "/owner.json", "w").write(note)
"""


@pytest.fixture
def living_cluster() -> Iterator[Mark]:
    """A process that carries the mark of a cluster."""
    mark = Mark(uuid4().hex, CLUSTER_VARIABLE)
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=-1, env={**os.environ, **mark.environment()}) as one:
        yield mark
        lives = one.poll() is None
        one.kill()
    assert lives


@pytest.fixture
def name() -> Iterator[Path]:
    folder = Path("/tmp", f"cb-{uuid4().hex[:8]}")
    yield folder
    if folder.is_symlink():
        folder.unlink()
    else:
        subprocess.run(["rm", "-rf", str(folder)], check=True)


def note_of(mark: Mark, marker: str = "a run") -> str:
    """As its owner would have written it, who has been killed since."""
    directory = make_temp_dir(marker, mark)
    note = json.loads((directory / "owner.json").read_text())
    remove_temp_dir(directory)
    return json.dumps({**note, "pid": 2**22 + 1})


def test_nobody_else_may_enter_the_folder_of_a_cluster_or_read_its_note() -> None:
    before = os.umask(0)
    try:
        directory = make_temp_dir("run", Mark("cluster"))
    finally:
        os.umask(before)
    modes = [path.stat().st_mode & 0o777 for path in (directory, directory / "owner.json")]
    remove_temp_dir(directory)
    assert modes == [0o700, 0o600]


@needs_a_second_user
@pytest.mark.parametrize("told_whose", [True, False])
def test_the_note_of_another_user_ends_no_cluster_of_ours(name: Path, living_cluster: Mark, told_whose: bool) -> None:
    run(PLANTS_A_NOTE, name, note_of(living_cluster), 700)
    remove_leftovers("a run" if told_whose else None)
    assert (name / "owner.json").exists()


@pytest.mark.parametrize("mode", [0o777, 0o755, 0o710])
def test_a_note_that_others_can_reach_is_not_believed(name: Path, living_cluster: Mark, mode: int) -> None:
    name.mkdir()
    (name / "owner.json").write_text(note_of(living_cluster))
    name.chmod(mode)
    remove_leftovers()
    assert (name / "owner.json").exists()


@pytest.mark.parametrize("is_note", [True, False])
def test_a_note_that_is_reached_by_a_link_is_not_believed(
    name: Path, living_cluster: Mark, is_note: bool, tmp_path: Path
) -> None:
    (tmp_path / "owner.json").write_text(note_of(living_cluster))
    if is_note:
        name.mkdir(0o700)
        (name / "owner.json").symlink_to(tmp_path / "owner.json")
    else:
        name.symlink_to(tmp_path)
    remove_leftovers()
    assert (tmp_path / "owner.json").exists()


def test_a_pipe_in_place_of_a_note_is_not_waited_for(name: Path) -> None:
    name.mkdir(0o700)
    os.mkfifo(name / "owner.json")
    remove_leftovers()
    assert (name / "owner.json").exists()


def test_what_was_left_while_its_note_was_written_is_removed_in_time(name: Path) -> None:
    name.mkdir(0o700)
    (name / ".owner.json.0123abcd").write_text('{"marker": "a r')
    remove_leftovers()
    assert name.exists()
    os.utime(name, (0, 0))
    remove_leftovers()
    assert not name.exists()


def test_a_folder_of_such_a_name_with_anything_else_in_it_is_somebody_elses(name: Path) -> None:
    name.mkdir(0o700)
    (name / "data").write_text("of another program")
    os.utime(name, (0, 0))
    remove_leftovers()
    assert (name / "data").exists()


def test_a_removal_follows_no_link(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("of the victim")
    directory = make_temp_dir("run", Mark("cluster"))
    (directory / "r").mkdir()
    (directory / "r" / "session_29").symlink_to(tmp_path)
    (directory / "link").symlink_to(tmp_path)
    remove_temp_dir(directory)
    assert not directory.exists()
    assert (tmp_path / "file").exists()


def test_a_link_that_a_script_put_into_the_place_of_a_folder_is_removed_alone(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("of the victim")
    directory = make_temp_dir("run", Mark("cluster"))
    directory.rename(tmp_path / "moved")
    directory.symlink_to(tmp_path)
    remove_temp_dir(directory)
    assert not directory.is_symlink()
    assert (tmp_path / "file").exists()


@needs_a_second_user
def test_a_folder_of_another_user_by_the_name_of_ours_is_not_removed(name: Path) -> None:
    run(PLANTS_A_NOTE, name, "{}", 777)
    remove_temp_dir(name)
    assert (name / "owner.json").exists()
