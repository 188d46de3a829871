"""Files in folders that others write to: no link is followed, nothing is waited for, whatever stands there."""

from __future__ import annotations

import os
import socket
import stat
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from other_user import needs_a_second_user, run, shared_folder

from curator_bench.files import safe_files
from curator_bench.files.folder_handles import NotUsable, open_folder
from curator_bench.files.names import is_safe_name, safe_name
from curator_bench.files.safe_files import TooLarge

DEPTH = 1500
AS_NOBODY = 65534
SOURCE = Path(__file__).parents[1] / "src"


def make_pipe(path: Path) -> None:
    os.mkfifo(path)


def make_socket(path: Path) -> None:
    there = os.getcwd()
    os.chdir(path.parent)  # the path of a socket is short
    try:
        with socket.socket(socket.AF_UNIX) as one:
            one.bind(path.name)
    finally:
        os.chdir(there)


def make_link(path: Path) -> None:
    target = path.with_name("outside.txt")
    target.write_text("somebody's")
    path.symlink_to(target)


HOSTILE = [make_pipe, make_socket, make_link, Path.mkdir]


@pytest.mark.parametrize("make", HOSTILE)
def test_what_is_no_regular_file_is_not_read(tmp_path: Path, make: Callable[[Path], None]) -> None:
    make(tmp_path / "status.json")
    with pytest.raises(NotUsable, match=r"is a (pipe|socket|link|folder), not a file"):
        safe_files.read_bytes(tmp_path / "status.json")


def test_a_folder_on_the_way_that_is_a_link_is_not_followed(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "a.txt").write_text("somebody's")
    run = tmp_path / "run"
    run.mkdir()
    (run / "logs").symlink_to(outside)
    for use in (
        safe_files.read_bytes,
        safe_files.remove,
        lambda path, below: safe_files.write_text(path, "x", below=below),
        lambda path, below: safe_files.append_bytes(path, b"x", below=below),
        lambda path, below: safe_files.create_file(path, below=below).close(),
    ):
        with pytest.raises(NotUsable, match="is a link, not a folder"):
            use(run / "logs" / "a.txt", below=run)
    with pytest.raises(NotUsable, match="is a link, not a folder"):
        safe_files.make_folder(run / "logs")
    assert (outside / "a.txt").read_text() == "somebody's"


def test_the_trusted_folder_may_be_reached_by_links(tmp_path: Path) -> None:
    (tmp_path / "disk").mkdir()
    (tmp_path / "results").symlink_to(tmp_path / "disk")
    results = tmp_path / "results"
    safe_files.make_folder(results / "a" / "b", below=results)
    safe_files.write_text(results / "a" / "b" / "c.txt", "here", below=results)
    assert safe_files.read_text(tmp_path / "disk" / "a" / "b" / "c.txt") == "here"


def test_a_path_that_leads_out_is_refused(tmp_path: Path) -> None:
    with pytest.raises(NotUsable, match="leads out of"):
        safe_files.read_bytes(tmp_path / "run" / ".." / ".." / "x", below=tmp_path / "run")


def test_a_file_that_is_too_large_is_not_read(tmp_path: Path) -> None:
    with (tmp_path / "huge").open("wb") as file:
        file.truncate(2**40)
    with pytest.raises(TooLarge, match=r"is too large: 1,048,576\.0 MiB, at most 1\.0 MiB"):
        safe_files.read_bytes(tmp_path / "huge", most_bytes=2**20)
    assert safe_files.read_end(tmp_path / "huge", 3) == b"\0\0\0"


@pytest.mark.parametrize("make", [make_pipe, make_socket, make_link])
def test_what_is_written_takes_the_place_of_whatever_is_there(tmp_path: Path, make: Callable[[Path], None]) -> None:
    file, log, lines = (tmp_path / name / "x" for name in ("whole", "log", "lines"))
    for path in (file, log, lines):
        path.parent.mkdir()
        make(path)
    safe_files.write_text(file, "new")
    with safe_files.create_file(log) as opened:
        opened.write(b"new")
    safe_files.append_bytes(lines, b"new")
    for path in (file, log, lines):
        assert path.read_text() == "new"
        assert not path.is_symlink()
        assert [one.name for one in path.parent.iterdir() if one.name.startswith(".")] == []
        if make is make_link:
            assert (path.parent / "outside.txt").read_text() == "somebody's"


def test_a_copy_by_hard_links_is_not_appended_to(tmp_path: Path) -> None:
    lines, kept = tmp_path / "results.jsonl", tmp_path / "kept.jsonl"
    lines.write_text("one\n")
    os.link(lines, kept)
    safe_files.append_bytes(lines, b"two\n")
    safe_files.append_bytes(lines, b"three\n")
    assert lines.read_text() == "one\ntwo\nthree\n"
    assert kept.read_text() == "one\n"


def test_a_folder_in_place_of_a_file_is_said(tmp_path: Path) -> None:
    (tmp_path / "results.jsonl").mkdir()
    with pytest.raises(NotUsable, match="is a folder, not a file"):
        safe_files.append_bytes(tmp_path / "results.jsonl", b"x")
    with pytest.raises(OSError, match="directory"):
        safe_files.write_bytes(tmp_path / "results.jsonl", b"x")
    assert [path.name for path in tmp_path.iterdir()] == ["results.jsonl"]


@pytest.mark.parametrize("mode", [0o600, 0o666])
def test_who_may_read_what_is_written_can_be_said(tmp_path: Path, mode: int) -> None:
    before = os.umask(0o022)
    try:
        safe_files.write_text(tmp_path / "token", "x", mode=mode)
        safe_files.append_bytes(tmp_path / "lines", b"x", mode=mode)
        safe_files.create_file(tmp_path / "log", mode=mode).close()
    finally:
        os.umask(before)
    assert {stat.S_IMODE(path.stat().st_mode) for path in tmp_path.iterdir()} == {mode & ~0o022}


def test_what_a_link_leads_to_is_never_removed(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "a.txt").write_text("somebody's")
    (tmp_path / "scratch").symlink_to(outside)
    safe_files.remove(tmp_path / "scratch")
    (tmp_path / "tree" / "inner").mkdir(parents=True)
    (tmp_path / "tree" / "inner" / "link").symlink_to(outside)
    safe_files.remove(tmp_path / "tree")
    safe_files.remove(tmp_path / "tree")
    assert [path.name for path in tmp_path.iterdir()] == ["outside"]
    assert (outside / "a.txt").read_text() == "somebody's"


def test_a_tree_too_deep_for_any_path_is_removed(tmp_path: Path) -> None:
    deeper = f"os.mkdir('top'); os.chdir('top')\nfor _ in range({DEPTH}):\n os.mkdir('a'); os.chdir('a')"
    make = f"import os; {deeper}\n open('file', 'w').close()"
    subprocess.run([sys.executable, "-c", make], cwd=tmp_path, check=True)
    safe_files.remove(tmp_path / "top")
    assert list(tmp_path.iterdir()) == []


def test_folders_that_are_closed_even_to_their_owner_are_removed(tmp_path: Path) -> None:
    program = (
        "import os, sys; from pathlib import Path; from curator_bench.files import safe_files\n"
        f"if os.geteuid() == 0: os.chown('.', {AS_NOBODY}, -1); os.setuid({AS_NOBODY})\n"
        "Path('top/a/b').mkdir(parents=True); Path('top/a/b/file').touch()\n"
        "os.chmod('top/a/b', 0); os.chmod('top/a', 0); os.chmod('top', 0)\n"
        "safe_files.remove(Path('top'))\n"
        "assert os.listdir() == []\n"
    )
    folder = Path("/tmp" if os.geteuid() == 0 else tmp_path, f"closed-{os.getpid()}")  # pytest's own is not for others
    folder.mkdir()
    try:
        subprocess.run([sys.executable, "-c", program], cwd=folder, check=True, env={"PYTHONPATH": str(SOURCE)})
    finally:
        safe_files.remove(folder)


@pytest.mark.parametrize("place", ["top", "top/a/b"])
def test_what_is_mounted_in_a_folder_is_not_removed_with_it(tmp_path: Path, place: str) -> None:
    """A script that runs as root mounts a dataset in its scratch folder."""
    dataset = tmp_path / "dataset"
    dataset.mkdir()
    (dataset / "file").touch()
    (tmp_path / "top" / "a" / "b").mkdir(parents=True)
    (tmp_path / "top" / "other").touch()
    if subprocess.run(["mount", "--bind", dataset, tmp_path / place], capture_output=True, check=False).returncode:
        pytest.skip("nothing can be mounted here")
    try:
        with pytest.raises(OSError, match="something is mounted in it"):
            safe_files.remove(tmp_path / "top")
        assert (dataset / "file").exists()
    finally:
        mounts = Path("/proc/self/mounts").read_text().splitlines()
        mounted = [line.split()[1] for line in mounts if str(tmp_path) in line]
        subprocess.run(["umount", *mounted], check=True)
    safe_files.remove(tmp_path / "top")
    assert [path.name for path in tmp_path.rglob("*")] == ["dataset", "file"]


def test_what_cannot_be_removed_is_said_and_keeps_nothing_else(tmp_path: Path) -> None:
    held = tmp_path / "top" / "a" / "b"
    held.mkdir(parents=True)
    (held / "held").touch()
    (tmp_path / "top" / "other").mkdir()
    (tmp_path / "top" / "other" / "file").touch()
    if subprocess.run(["chattr", "+i", held / "held"], capture_output=True, check=False).returncode:
        pytest.skip("files cannot be made immutable here")
    try:
        with pytest.raises(OSError, match="not permitted") as caught:
            safe_files.remove(tmp_path / "top")
        assert caught.value.filename == str(tmp_path / "top")
        left = [path for path in (tmp_path / "top").rglob("*") if path.is_file()]
        assert [path.name for path in left] == ["held"]
    finally:
        subprocess.run(["chattr", "-R", "-i", tmp_path / "top"], check=True)


def test_a_lease_of_somebody_is_not_waited_for(tmp_path: Path) -> None:
    file = tmp_path / "metrics.json"
    file.write_text("{}")
    lease = "f = open(sys.argv[1], 'r+'); fcntl.fcntl(f, fcntl.F_SETLEASE, fcntl.F_WRLCK)"
    hold = f"import fcntl, sys, time; {lease}; print(flush=True); time.sleep(60)"
    holder = subprocess.Popen(
        [sys.executable, "-c", hold, str(file)], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    )
    try:
        assert holder.stdout
        if not holder.stdout.readline():
            pytest.skip("there are no leases here")
        began = time.monotonic()
        with pytest.raises(BlockingIOError):
            safe_files.read_bytes(file)
        assert time.monotonic() - began < 20  # a lease is broken after 45 s
    finally:
        holder.kill()
        holder.wait()


def test_files_of_other_users_can_be_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "owner.json").write_text("{}")
    assert safe_files.read_text(tmp_path / "owner.json", ours=True) == "{}"
    uid = os.geteuid()
    monkeypatch.setattr(os, "geteuid", lambda: uid + 1)
    with pytest.raises(NotUsable, match=f"belongs to another user \\(uid {uid}\\)"):
        safe_files.read_text(tmp_path / "owner.json", ours=True)
    with (
        pytest.raises(NotUsable, match="belongs to another user"),
        open_folder(tmp_path, below=tmp_path.parent, ours=True),
    ):
        pass


def test_the_kind_of_what_stands_there_is_told(tmp_path: Path) -> None:
    assert safe_files.kind_of(tmp_path / "x") == ""
    assert safe_files.kind_of(tmp_path) == "folder"
    make_link(tmp_path / "link")
    assert safe_files.kind_of(tmp_path / "link") == "link"
    assert safe_files.kind_of(tmp_path / "outside.txt") == "file"
    assert safe_files.kind_of(Path("/dev/null")) == "device"


@pytest.mark.parametrize(("umask", "mode"), [(0o022, 0o600), (0o002, 0o660), (0o000, 0o666), (0o077, 0o600)])
def test_those_can_open_a_lock_who_may_write_it(tmp_path: Path, umask: int, mode: int) -> None:
    """Whoever can read it could hold it for ever."""
    before = os.umask(umask)
    try:
        (tmp_path / "older").touch(0o666)
        for name in ("new", "older"):
            safe_files.open_lock(tmp_path / name).close()
            safe_files.open_lock(tmp_path / name).close()
    finally:
        os.umask(before)
    assert {stat.S_IMODE((tmp_path / name).stat().st_mode) for name in ("new", "older")} == {mode}


@needs_a_second_user
def test_a_lock_of_another_user_is_refused_where_everybody_can_put_things() -> None:
    with shared_folder() as folder:
        run(
            "os.close(os.open(sys.argv[1], os.O_CREAT | os.O_WRONLY, 0o666)); os.chmod(sys.argv[1], 0o666)",
            folder / "a",
        )
        with pytest.raises(NotUsable, match="belongs to another user"):
            safe_files.open_lock(folder / "a")
        folder.chmod(0o777)  # as a group shares one: here they could replace it anyway
        safe_files.open_lock(folder / "a").close()


def test_a_file_created_exclusively_is_never_seen_without_its_content(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = []
    link = os.link

    def look_and_link(source: str, target: str, **how: Any) -> None:
        seen.append(((tmp_path / source).read_text(), (tmp_path / target).exists()))
        link(source, target, **how)

    monkeypatch.setattr(os, "link", look_and_link)
    safe_files.create_exclusively(tmp_path / "file", "whole")
    with pytest.raises(FileExistsError):
        safe_files.create_exclusively(tmp_path / "file", "second")
    assert seen == [("whole", False), ("second", True)]
    assert os.listdir(tmp_path) == ["file"]
    assert (tmp_path / "file").read_text() == "whole"


def test_where_there_are_no_links_files_are_created_exclusively_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(os, "link", refuse)
    safe_files.create_exclusively(tmp_path / "file", "whole")
    with pytest.raises(FileExistsError):
        safe_files.create_exclusively(tmp_path / "file", "second")
    assert os.listdir(tmp_path) == ["file"]
    assert (tmp_path / "file").read_text() == "whole"


@pytest.mark.parametrize("name", ["a", "2026-11-19_0102", "v1.2+cu12@main", "_x", "x" * 200])
def test_a_name_that_is_safe_stays_as_it_is(name: str) -> None:
    assert safe_name(name) == name


@given(st.text(max_size=300))
def test_whatever_the_text_its_name_is_one_file_of_the_folder_it_is_put_in(text: str) -> None:
    name = safe_name(text)
    assert Path("/folder", name).parent == Path("/folder")
    assert os.path.normpath(f"/folder/{name}") == f"/folder/{name}"
    assert not name.startswith(".")
    assert len(name.encode()) <= 255
    assert is_safe_name(name)


def test_names_that_differ_are_told_apart() -> None:
    texts = ["a/b", "a_b", "a\\b", "../a", "..", ".", "", "a\0b", "a\nb", "\u2028", "\ud800", "a" * 201, "a" * 202]
    assert len({safe_name(text) for text in texts}) == len(texts)


def test_nothing_that_is_a_device_is_replaced() -> None:
    for replace in (safe_files.create_file, safe_files.open_to_append):
        with pytest.raises(NotUsable, match="is a device"):
            replace(Path("/dev/null"))
    assert Path("/dev/null").is_char_device()


@pytest.mark.parametrize("ask", [safe_files.time_of, safe_files.read_bytes])
def test_an_error_names_the_whole_path(tmp_path: Path, ask: Callable[..., object]) -> None:
    with pytest.raises(FileNotFoundError) as missing:
        ask(tmp_path / "folder" / "none", below=tmp_path)
    assert missing.value.filename == str(tmp_path / "folder")
    tmp_path.joinpath("folder").mkdir()
    with pytest.raises(FileNotFoundError) as missing:
        ask(tmp_path / "folder" / "none", below=tmp_path)
    assert missing.value.filename == str(tmp_path / "folder" / "none")
