"""Reading a log as it grows: from where the last piece ended, whatever a script does with the file."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from curator_bench.report.server.log_reader import LogPlace, log_place, newest_log, read_on, shown_line

PIECE = 256 * 1024


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "session" / "entry" / "logs" / "stdouterr.log"
    path.parent.mkdir(parents=True)
    return path


def place_of(log: Path) -> LogPlace:
    return LogPlace(log, log.parents[2])


def test_a_log_is_read_from_where_the_last_piece_ended(log: Path) -> None:
    place = place_of(log)
    log.write_bytes(b"one\ntwo\nhalf a lin")
    first = read_on(place)
    assert (first.lines, first.open_line, first.is_new, first.skipped) == (("one", "two"), "half a lin", True, 0)
    with log.open("ab") as file:
        file.write("e, ü".encode()[:-1])
    torn = read_on(place, first.position)
    assert (torn.lines, torn.is_new) == ((), False)
    with log.open("ab") as file:
        file.write("ü".encode()[-1:] + b"\nlast\n")
    second = read_on(place, torn.position)
    assert (second.lines, second.open_line, second.is_new) == (("half a line, ü", "last"), "", False)
    assert read_on(place, second.position).lines == ()


def test_a_log_that_was_cut_or_replaced_is_read_anew(log: Path) -> None:
    place = place_of(log)
    log.write_text("one\ntwo\n")
    position = read_on(place).position
    log.write_text("new\n")
    cut = read_on(place, position)
    assert (cut.lines, cut.is_new) == (("new",), True)
    beside = log.with_name("other")
    beside.write_text("a\nb\nc\nd\n")
    beside.replace(log)
    replaced = read_on(place, cut.position)
    assert (replaced.lines, replaced.is_new) == (("a", "b", "c", "d"), True)


def test_of_a_huge_log_the_end_alone_is_read(log: Path) -> None:
    place = place_of(log)
    log.write_text("first\n")
    position = read_on(place).position
    with log.open("r+b") as file:
        file.truncate(2**30)
        file.seek(0, os.SEEK_END)
        file.write(b"\nthe end\n")
    piece = read_on(place, position)
    assert piece.lines[-1] == "the end"
    assert piece.skipped == 2**30 + 9 - PIECE - 6
    assert sum(map(len, piece.lines)) < PIECE
    assert read_on(place).skipped == 2**30 + 9 - PIECE


def test_a_line_without_end_is_shown_in_part(log: Path) -> None:
    log.write_bytes(b"x" * 100_000)
    piece = read_on(place_of(log))
    assert [len(line) for line in piece.lines] == [2001]
    assert piece.position.endswith(":100000")


@pytest.mark.parametrize("position", ["", "nonsense", "1.2:-5", "1.2:99999999999999999999", ":", "٣:٣"])
def test_any_position_is_understood(log: Path, position: str) -> None:
    log.write_text("a\n")
    assert read_on(place_of(log), position).lines == ("a",)


def test_links_pipes_and_folders_are_not_read_or_waited_for(log: Path, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("secret\n")
    log.symlink_to(secret)
    assert "link" in read_on(place_of(log)).why_not
    log.unlink()
    os.mkfifo(log)
    assert "pipe" in read_on(place_of(log)).why_not
    log.unlink()
    log.mkdir()
    assert "folder" in read_on(place_of(log)).why_not
    log.rmdir()
    assert read_on(place_of(log)).why_not == "There is no log yet."
    log.parent.rmdir()
    log.parent.symlink_to(tmp_path)
    tmp_path.joinpath("stdouterr.log").write_text("secret\n")
    session_dir = log.parents[2]
    assert log_place(log.parents[1], session_dir) is None
    assert newest_log(log.parents[1], session_dir) is None
    assert read_on(place_of(log)).lines == ()


def test_the_log_of_a_run_with_artifacts_elsewhere_and_of_its_repeats_is_found(log: Path, tmp_path: Path) -> None:
    session_dir, entry = log.parents[2], log.parents[1]
    elsewhere = tmp_path / "big" / "session" / "entry" / "repeat_2" / "logs"
    elsewhere.mkdir(parents=True)
    elsewhere.joinpath("stdouterr.log").write_text("second\n")
    log.write_text("first\n")
    os.utime(log, (1, 1))
    repeat = entry / "repeat_2"
    repeat.mkdir()
    repeat.joinpath("logs").symlink_to(elsewhere)
    found = newest_log(entry, session_dir)
    assert found is not None
    assert (found[0], read_on(found[1]).lines) == (repeat, ("second",))


def test_a_line_is_shown_as_a_terminal_would_but_commands_nothing() -> None:
    assert shown_line("10 %\r50 %\r100 %\r") == "100 %"
    assert shown_line("\x1b[31mred\x1b[0m \x1b]0;title\x07<script>") == "red <script>"
    assert shown_line("a\0\0b\x07c\u202ed") == "ab\\x07c\\u202ed"
