"""What is no matrix at all is refused quickly, in little memory, and with a word of why."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from matrix.conftest import Folder

SOURCE = Path(__file__).parents[2] / "src"
ENTRY = "entries: [{name: removal, script: run.py}]\n"
EMPTY = "the file is empty, expected a mapping with `entries`"
BINARY = "found binary data, expected YAML text in UTF-8"


@pytest.mark.parametrize(
    ("data", "told"),
    [
        pytest.param(b"", f": {EMPTY}", id="nothing"),
        pytest.param(b"  \n\n", f": {EMPTY}", id="blanks"),
        pytest.param(b"# nothing yet\n", f": {EMPTY}", id="a comment"),
        pytest.param(b"---\n---\n", f": {EMPTY}", id="documents without content"),
        pytest.param(b"entries:\n\x00\x01", f":2: {BINARY}", id="binary data"),
        pytest.param("entries: []".encode("utf-16"), f":1: {BINARY}", id="UTF-16"),
        pytest.param(b"a:\n  - caf\xe9\n", ":2: found byte 0xe9, expected YAML text in UTF-8", id="Latin-1"),
        pytest.param(
            b"a:\n  - \x07\n",
            ":2: not valid YAML: unacceptable character #x0007: control characters are not allowed",
            id="a control character",
        ),
        pytest.param(b"- name: a\n", ":1: found a list, expected a mapping with `entries`", id="a list"),
        pytest.param(b"some words\n", ":1: found 'some words', expected a mapping with `entries`", id="a text"),
        pytest.param(b"\n42", ":2: found 42, expected a mapping with `entries`", id="a number"),
        pytest.param(b"a: 1\n---\n- b\n", ":3: found a list, expected a mapping with `entries`", id="a list later on"),
    ],
)
def test_a_file_that_is_no_matrix_gets_this_mistake(folder: Folder, data: bytes, told: str) -> None:
    assert folder.mistakes(data) == [f"matrix.yaml{told}"]


def test_a_file_that_cannot_be_read_is_a_mistake(folder: Folder) -> None:
    """Root may read everything, so instead of a file without permissions: what nobody can read."""
    directory, link = folder.path / "folder.yaml", folder.path / "link.yaml"
    directory.mkdir()
    link.symlink_to("nowhere.yaml")
    assert folder.mistakes(directory) == ["folder.yaml: is a directory, expected a file"]
    assert folder.mistakes(link) == ["link.yaml: is a link to a file that is not there"]
    assert folder.mistakes(folder.path / "absent.yaml") == ["absent.yaml: there is no such file"]
    assert folder.mistakes(Path("/dev/zero")) == ["/dev/zero: is not a regular file"]


@pytest.mark.skipif(not Path("/proc/self/mem").exists(), reason="needs /proc, which is Linux")
def test_a_file_that_fails_to_be_read_is_a_mistake(folder: Folder) -> None:
    assert folder.mistakes(Path("/proc/self/mem")) == ["/proc/self/mem: cannot be read: Input/output error"]


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read any file")
def test_a_file_without_permission_is_a_mistake(folder: Folder) -> None:
    file = folder.write(ENTRY)
    file.chmod(0)
    assert folder.mistakes(file) == ["matrix.yaml: cannot be read: Permission denied"]


LOAD = """
import json, pathlib, re, resource, sys, time
from curator_bench.errors import MatrixError
from curator_bench.matrix import LoadRequest, load
if sys.platform == "linux":
    resource.setrlimit(resource.RLIMIT_AS, (2 * 2**30, 2 * 2**30))
told = []
start = time.process_time()
try:
    load(LoadRequest(files=(pathlib.Path(sys.argv[1]),), working_dir=pathlib.Path(sys.argv[1]).parent))
except MatrixError as error:
    told = [str(mistake) for mistake in error.mistakes]
seconds = time.process_time() - start
status = pathlib.Path("/proc/self/status")  # unlike getrusage it does not count the process that started this one
peak = re.search(r"VmHWM:\\s+([0-9]+)", status.read_text()) if status.exists() else None
print(json.dumps([told, seconds, int(peak[1]) / 1024 if peak else 0]))
"""
# The promise is 2 s and 200 MB. A busy machine may take several times as long; memory does not depend on that.
SECONDS, MEGABYTES = 2 * 5, 200
"""Of processor time, so that what else runs on the machine hardly counts."""


def load_in_a_child(file: Path) -> list[str]:
    """The mistakes of a file, loaded by a process that is held to the limits."""
    child = subprocess.Popen(
        [sys.executable, "-c", LOAD, str(file)],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(SOURCE)},
        start_new_session=True,
    )
    try:
        answer, _ = child.communicate(timeout=SECONDS * 6)
    finally:
        if child.poll() is None:
            os.killpg(child.pid, signal.SIGKILL)
            child.wait()
    told, seconds, megabytes = json.loads(answer)
    assert seconds < SECONDS
    assert megabytes < MEGABYTES
    assert isinstance(told, list)
    return told


def laughs(levels: int, width: int = 9, *, opening: str = "[", closing: str = "]", key: str = "") -> str:
    lines = ["a0: &a0 " + opening + ", ".join(f"{key.format(n)}lol" for n in range(width)) + closing]
    for level in range(1, levels):
        inside = ", ".join(f"{key.format(n)}*a{level - 1}" for n in range(width))
        lines.append(f"a{level}: &a{level} {opening}{inside}{closing}")
    return "\n".join(lines) + "\n"


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(laughs(10), id="lists"),
        pytest.param(laughs(10, opening="{", closing="}", key="k{}: "), id="mappings"),
        pytest.param("x-laughs:\n  " + laughs(10).replace("\n", "\n  "), id="under a key that is left out"),
        pytest.param(laughs(40, width=2), id="many levels"),
    ],
)
def test_billion_laughs_are_refused_before_anything_is_built(folder: Folder, text: str) -> None:
    (mistake,) = load_in_a_child(folder.write(text + ENTRY))
    assert "its aliases expand to more than 10,000,000 nodes" in mistake


def test_aliases_cannot_nest_what_brackets_may_not(folder: Folder) -> None:
    text = "".join(f"k{number}: &a{number} [{f'*a{number - 1}' if number else 'x'}]\n" for number in range(3000))
    assert load_in_a_child(folder.write(text)) == ["matrix.yaml:64: nested more than 64 deep"]


@pytest.mark.parametrize(
    ("piece", "size", "told"),
    [
        pytest.param(b"# a comment\n", 65, "65 MB is too large for a matrix (at most 64 MB)", id="too large"),
        pytest.param(b"\0", 63, BINARY, id="binary"),
        pytest.param(b"\xff", 63, "found byte 0xff, expected YAML text in UTF-8", id="not UTF-8"),
        pytest.param(b"- item\n", 63, "found a list, expected a mapping with `entries`", id="a list"),
        pytest.param(b"# a comment\n", 63, "the file is empty, expected a mapping with `entries`", id="empty"),
        pytest.param(b"[", 63, "found a list, expected a mapping with `entries`", id="brackets"),
        pytest.param(b"words ", 63, "found 'words words", id="text"),
        pytest.param(b"@", 63, "found character that cannot start any token", id="not YAML"),
    ],
)
def test_a_large_file_that_is_no_matrix_is_refused_within_limits(
    folder: Folder, piece: bytes, size: int, told: str
) -> None:
    file = folder.write(piece * (size * 2**20 // len(piece)))
    (mistake,) = load_in_a_child(file)
    assert told in mistake


def test_a_pipe_named_as_a_matrix_does_not_hang(folder: Folder) -> None:
    pipe = folder.path / "pipe.yaml"
    os.mkfifo(pipe)
    assert load_in_a_child(pipe) == ["pipe.yaml: is not a regular file"]
