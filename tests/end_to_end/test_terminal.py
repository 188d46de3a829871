"""A terminal while entries run: a line that lives at its bottom, and is gone without a trace when they have ended."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import signal
import struct
import subprocess
import termios
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import pytest

from curator_bench.measure.processes import busyness

if TYPE_CHECKING:
    from end_to_end.conftest import Project

pytestmark = pytest.mark.slow

COLUMNS, ROWS = 60, 200
_PART = re.compile(r"\x1b\[(?P<number>\d*)(?:;\d+)*(?P<action>[A-Za-z])|\r|\n|[^\x1b\r\n]+")


class Screen:
    """As much of a terminal as pytest and we make use of: it wraps, goes up, clears lines, and knows wide letters."""

    def __init__(self) -> None:
        self.rows: list[list[str]] = [[]]
        self.row = self.column = 0
        self.unknown: list[str] = []
        self.ever = ""

    def feed(self, text: str) -> None:
        self.ever += text
        end = 0
        for part in _PART.finditer(text):
            self.unknown += [text[end : part.start()]] if part.start() > end else []
            end = part.end()
            self._do(part)

    def _do(self, part: re.Match[str]) -> None:
        if part["action"] is not None:
            self._act(part["action"], int(part["number"] or 1))
        elif part[0] == "\r":
            self.column = 0
        elif part[0] == "\n":
            self._down()
        else:
            self._write(part[0])

    def _act(self, action: str, number: int) -> None:
        if action == "A":
            self.row = max(0, self.row - number)
        elif action == "K" and number == 2:
            self.rows[self.row] = []
        elif action != "m":
            self.unknown.append(action)

    def _down(self) -> None:
        self.row, self.column = self.row + 1, 0
        while len(self.rows) <= self.row:
            self.rows.append([])

    def _write(self, text: str) -> None:
        from rich.cells import cell_len

        for letter in text:
            width = cell_len(letter)
            if self.column + width > COLUMNS:
                self._down()
            row = self.rows[self.row]
            row += [" "] * (self.column + width - len(row))
            row[self.column : self.column + width] = [letter, *[""] * (width - 1)]
            self.column += width

    @property
    def lines(self) -> list[str]:
        return ["".join(row).rstrip() for row in self.rows]


class Terminal:
    """A pytest on a terminal of its own."""

    def __init__(self, project: Project, *options: str, **variables: str) -> None:
        self.screen = Screen()
        self._ours, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
        environment = {"TERM": "xterm", **variables}
        self.process = subprocess.Popen(
            project.command(*options),
            cwd=project.folder,
            env={name: value for name, value in project.environment(**environment).items() if name != "COLUMNS"},
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            start_new_session=True,
            preexec_fn=lambda: (project.heed_signals(), fcntl.ioctl(0, termios.TIOCSCTTY, 0)),
        )
        os.close(theirs)
        os.set_blocking(self._ours, False)
        self._unread = b""

    def read(self) -> None:
        try:
            self._unread += os.read(self._ours, 65536)
        except BlockingIOError:
            time.sleep(0.02)
        except OSError:  # nobody holds the other end any more
            time.sleep(0.02)
        text = self._unread.decode("utf-8", "ignore")
        if text.encode() == self._unread:  # else in the middle of a letter
            self.screen.feed(text)
            self._unread = b""

    def wait_for(self, sight: Callable[[list[str]], bool], within_s: float = 30) -> None:
        deadline = time.monotonic() + within_s * busyness()
        while not sight(self.screen.lines):
            assert time.monotonic() < deadline, "\n".join(self.screen.lines)
            self.read()

    def press_ctrl_c(self) -> None:
        os.write(self._ours, b"\x03")

    def wait(self) -> int:
        deadline = time.monotonic() + 60 * busyness()
        while self.process.poll() is None:
            assert time.monotonic() < deadline, "\n".join(self.screen.lines)
            self.read()
        for _ in range(5):
            self.read()
        return self.process.returncode

    def close(self) -> None:
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        os.close(self._ours)


@pytest.fixture
def terminal(project: Project) -> Iterator[Callable[..., Terminal]]:
    opened: list[Terminal] = []

    def start(*options: str, **variables: str) -> Terminal:
        opened.append(Terminal(project, *options, **variables))
        return opened[-1]

    yield start
    for one in opened:
        one.close()


def live(lines: list[str]) -> list[str]:
    return [line for line in lines if "⏱" in line]


def heads(lines: list[str]) -> list[str]:
    """Of what is redrawn, the line that says how far it is."""
    return [line for line in lines if re.match(r"    \d+ of \d+ done", line)]


def test_a_line_lives_while_an_entry_runs_and_is_gone_when_it_has_ended(
    project: Project, terminal: Callable[..., Terminal]
) -> None:
    project.matrix(project.entry("one", "--say 'half way' --sleep 3"), project.entry("two", "--say second --sleep 2"))
    shown = terminal()
    shown.wait_for(lambda lines: any("│ half way" in line for line in live(lines)))
    first = live(shown.screen.lines)
    assert len(first) == 1
    assert heads(shown.screen.lines) == ["    0 of 2 done, 1 running"]
    assert re.fullmatch(r"    ⏱ one [\d.]+ s │ half way", first[0])
    shown.wait_for(lambda lines: live(lines) not in ([], first))  # it is redrawn
    shown.wait_for(lambda lines: any("two" in line and "│ second" in line for line in live(lines)))
    assert len(live(shown.screen.lines)) == 1
    assert shown.wait() == 0
    lines = shown.screen.lines
    assert not live(lines)
    assert shown.screen.unknown == []
    told = [line for line in lines if line.startswith(("Started", "    Running", "        ✅"))]
    assert [re.sub(r"[\d.]+ s", "N s", line) for line in told] == [
        "Started session s",
        "    Running one",
        "        ✅ one: passed in N s",
        "    Running two",
        "        ✅ two: passed in N s",
    ]


def test_whatever_a_script_prints_the_screen_stays_in_order(
    project: Project, terminal: Callable[..., Terminal]
) -> None:
    """Colours, cursor movements, a progress bar, wide letters, and a line longer than the terminal is wide."""
    project.write(
        "script.py",
        """
        import json, sys, time
        from pathlib import Path
        wild = "\\x1b[31mred\\x1b[0m\\x1b[5A\\x1b]0;title\\x07 \\t\\x07\\x08\\u202e" + "漢字" * 60
        print("10 %\\r" + wild, end="", flush=True)
        time.sleep(2)
        Path(sys.argv[2], "metrics.json").write_text("{}")
        """,
    )
    project.matrix(project.entry("one"))
    shown = terminal()
    shown.wait_for(lambda lines: any("red" in line for line in live(lines)))
    lines = shown.screen.lines
    assert len(live(lines)[0]) < COLUMNS
    assert re.search(r"│ red (漢字)+漢?$", live(lines)[0])
    assert lines[-2:] == [live(lines)[0], ""]  # it did not wrap around
    assert shown.wait() == 0
    assert not live(shown.screen.lines)
    assert not [line for line in shown.screen.lines if "漢" in line]
    assert shown.screen.unknown == []
    assert "    Running one" in shown.screen.lines


def test_every_running_entry_has_a_line_with_workers(project: Project, terminal: Callable[..., Terminal]) -> None:
    gate = project.folder / "gate"
    project.matrix(*(project.entry(name, f"--say 'work on {name}' --until {gate}") for name in ("one", "two")))
    shown = terminal("-n2")
    shown.wait_for(lambda lines: len([line for line in live(lines) if "│ work on" in line]) == 2)
    gate.touch()
    assert shown.wait() == 0
    assert not live(shown.screen.lines)


def test_one_screen_shows_how_far_a_fleet_is_and_what_runs_where(
    project: Project, terminal: Callable[..., Terminal]
) -> None:
    gates = [project.folder / name for name in ("first", "second")]
    project.matrix(*(project.entry(gate.name, f"--say begun --until {gate}") for gate in gates), default_timeout_s=600)
    shown = terminal("--bench-fleet", "local", "--bench-fleet-cpus", "2")
    shown.wait_for(lambda lines: len([line for line in live(lines) if re.search(r" on \S+ [\d.]+ s", line)]) == 2, 90)
    (head,) = heads(shown.screen.lines)
    assert re.match(r"    0 of 2 done, 2 running", head)
    gates[0].touch()
    shown.wait_for(lambda lines: any("1 of 2 done, 1 running" in line for line in heads(lines)), 90)
    gates[1].touch()
    assert shown.wait() == 0
    assert not live(shown.screen.lines) + heads(shown.screen.lines)
    assert shown.screen.unknown == []


def test_an_item_that_never_ran_has_no_line(project: Project, terminal: Callable[..., Terminal]) -> None:
    project.write(
        "conftest.py",
        """
        import pytest

        @pytest.fixture(autouse=True)
        def gate(entry):
            if entry.name == "one":
                pytest.skip("not today")
        """,
    )
    project.matrix(project.entry("one"), project.entry("two", "--say now --sleep 2"))
    shown = terminal()
    shown.wait_for(lambda lines: any("│ now" in line for line in live(lines)))
    assert len(live(shown.screen.lines)) == 1
    assert shown.wait() == 0


@pytest.mark.parametrize("plain", [{"TERM": "dumb"}, {"options": "-s"}, {"options": "-q"}])
def test_where_redrawing_would_be_in_the_way_there_is_none(
    project: Project, terminal: Callable[..., Terminal], plain: dict[str, str]
) -> None:
    project.matrix(project.entry("one", "--say now --sleep 1.3"))
    options = [plain.pop("options")] if "options" in plain else []
    shown = terminal(*options, **plain)
    assert shown.wait() == 0
    assert "⏱" not in shown.screen.ever
    assert " of 1 done" not in shown.screen.ever  # that comes as a line after 30 s
    assert shown.screen.unknown == []


@pytest.mark.parametrize("options", [[], ["-n2"]])
def test_ctrl_c_stops_the_run_prints_the_summary_and_leaves_nothing(
    project: Project, terminal: Callable[..., Terminal], options: list[str]
) -> None:
    project.matrix(project.entry("one", "--say now --sleep 600 --daemon"), project.entry("two", "--sleep 600"))
    shown = terminal(*options)
    shown.wait_for(lambda lines: any("│ now" in line for line in live(lines)))
    shown.press_ctrl_c()
    assert shown.wait() == pytest.ExitCode.INTERRUPTED
    assert not live(shown.screen.lines)
    rows = [line.split()[:2] for line in shown.screen.lines]
    assert ["ENTRY", "VERDICT"] in rows
    assert ["one", "interrupted"] in rows
    assert f"Session: {project.session_dir}" in "".join(shown.screen.lines)
    assert "To continue: the same command with --bench-resume --bench-session s" in "".join(shown.screen.lines)
    assert project.outcome_of("one")["verdict"] == "interrupted"
    assert not project.processes()
