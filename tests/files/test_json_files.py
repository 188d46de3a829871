"""Files that others read while we run: whole or not there, and strict JSON whatever is in them."""

from __future__ import annotations

import json
import math
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from curator_bench.files.codec import strict
from curator_bench.files.json_files import SCHEMA_VERSION, append_json_line, tail, write_json
from curator_bench.files.safe_files import remove, write_text

SOURCE = Path(__file__).parents[2] / "src"
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=10),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
    max_leaves=12,
)


def refuse(constant: str) -> None:
    raise AssertionError(f"{constant} is no JSON")


@given(st.dictionaries(st.text(max_size=5), VALUES, max_size=4))
def test_whatever_the_values_the_text_is_json_that_anything_can_read(document: dict[str, Any]) -> None:
    assert json.loads(json.dumps(strict(document)), parse_constant=refuse) == strict(document)


def test_what_is_no_number_is_named() -> None:
    assert strict({"a": math.nan, "b": [math.inf, (-math.inf,)], 3: 1.5}) == {
        "a": "NaN",
        "b": ["Infinity", ["-Infinity"]],
        "3": 1.5,
    }


def test_a_document_says_which_schema_it_follows(tmp_path: Path) -> None:
    write_json(tmp_path / "x.json", {"a": "ü"})
    assert json.loads((tmp_path / "x.json").read_text("utf-8")) == {"schema_version": SCHEMA_VERSION, "a": "ü"}


def test_a_write_that_fails_leaves_the_old_file_and_nothing_beside_it(tmp_path: Path) -> None:
    file = tmp_path / "x.json"
    write_text(file, "old")
    with pytest.raises(UnicodeEncodeError):
        write_text(file, "new \ud800")
    assert file.read_text() == "old"
    assert list(tmp_path.iterdir()) == [file]


def test_a_reader_never_sees_half_a_file(tmp_path: Path) -> None:
    file = tmp_path / "status.json"
    write_json(file, {"text": "a" * 200_000})
    code = (
        "import sys, time; from pathlib import Path; from curator_bench.files.json_files import write_json\n"
        "end = time.monotonic() + 1\n"
        "while time.monotonic() < end: write_json(Path(sys.argv[1]), {'text': 'b' * 200_000})"
    )
    writer = subprocess.Popen([sys.executable, "-c", code, str(file)], env={"PYTHONPATH": str(SOURCE)})
    looks = 0
    while writer.poll() is None:
        assert len(json.loads(file.read_text())["text"]) == 200_000
        looks += 1
    assert writer.returncode == 0
    assert looks > 10


def test_lines_of_several_processes_do_not_mix(tmp_path: Path) -> None:
    file = tmp_path / "results.jsonl"
    code = (
        "import sys; from pathlib import Path; from curator_bench.files.json_files import append_json_line\n"
        "for n in range(200): append_json_line(Path(sys.argv[1]), {'by': sys.argv[2], 'n': n, 'x': 'y' * 5000})"
    )
    words = [sys.executable, "-c", code, str(file)]
    writers = [subprocess.Popen([*words, name], env={"PYTHONPATH": str(SOURCE)}) for name in "abc"]
    assert [writer.wait() for writer in writers] == [0, 0, 0]
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    assert sorted((line["by"], line["n"]) for line in lines) == [(name, n) for name in "abc" for n in range(200)]


def test_a_line_is_one_line(tmp_path: Path) -> None:
    append_json_line(tmp_path / "x", {"text": "two\nlines", "rate": math.nan})
    assert json.loads((tmp_path / "x").read_text()) == {"schema_version": 1, "text": "two\nlines", "rate": "NaN"}
    assert (tmp_path / "x").read_text().count("\n") == 1


def test_the_end_of_a_huge_log_is_read_without_reading_it(tmp_path: Path) -> None:
    log = tmp_path / "log"
    with log.open("wb") as file:
        file.truncate(50 << 30)
        file.seek(0, 2)
        file.write(b"\nlast but one\n\xff last\n")
    assert tail(log, 2) == ("last but one", "\N{REPLACEMENT CHARACTER} last")
    assert tail(tmp_path / "none", 2) == ()
    assert tail(tmp_path, 2) == ()


def test_removing_takes_files_links_and_folders_but_nothing_behind_a_link(tmp_path: Path) -> None:
    (tmp_path / "kept").mkdir()
    (tmp_path / "kept" / "file").touch()
    (tmp_path / "folder" / "deep").mkdir(parents=True)
    (tmp_path / "folder" / "link").symlink_to(tmp_path / "kept")
    (tmp_path / "link").symlink_to(tmp_path / "kept")
    (tmp_path / "dangling").symlink_to(tmp_path / "nowhere")
    (tmp_path / "file").touch()
    for name in ("folder", "link", "dangling", "file", "never there"):
        remove(tmp_path / name)
    assert [path.name for path in tmp_path.iterdir()] == ["kept"]
    assert (tmp_path / "kept" / "file").exists()
