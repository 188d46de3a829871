"""Kills of every kind at random moments: no run that was called passed is lost, and nothing is left of any."""

from __future__ import annotations

import json
import os
import random
import signal
import sqlite3
import subprocess
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from proof.killing import FULL, RAY, Killing, at_random, command, nothing_left_within_s

from curator_bench.measure.processes import ProcessId, busyness

if TYPE_CHECKING:
    from end_to_end.conftest import Project

PARTS = range(40 if FULL else 2)
KILLS_PER_PART = 5
ENTRIES = 6
MOST_PER_SESSION = 5
# One in so many sessions has clusters, which take the longest.
RAY_IN = 3

# Notes each execution, leaves a daemon that shed every mark of its run, and writes its results in the end.
WORKS = """
import os, resource, subprocess, sys, time
from pathlib import Path

name, seconds, note = sys.argv[1], float(sys.argv[2]), Path(sys.argv[3])
def append(what, text):
    with open(note / what, "a") as file:
        file.write(text + "\\n")
append("executions", f"{name} {os.environ['ROUND']}")
read_end, write_end = os.pipe()
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        resource.prlimit(0, 10, (-1, -1))
        os.write(write_end, str(os.getpid()).encode())
        os.execve("/bin/sleep", ["sleep", "600"], {})
    os._exit(0)
os.wait()
append("daemons", os.read(read_end, 20).decode())
if "RAY_ADDRESS" in os.environ:
    import ray
    ray.init(log_to_driver=False)
    ray.get(ray.remote(lambda: time.sleep(seconds)).remote())
shared = Path(f"/dev/shm/{os.environ['CURATOR_BENCH_TEST']}-{os.getpid()}")
with shared.open("wb") as held:
    held.truncate(4096)
    time.sleep(seconds)
shared.unlink()
results = Path(sys.argv[-1])
results.joinpath("params.json").write_text("{}")
results.joinpath("metrics.json").write_text('{"is_success": true, "n": 1}')
os._exit(0)
"""
# A line is written once the run has been recorded: the item's call is over, and judging it completed the row.
CONFTEST = """
import os, pytest

@pytest.hookimpl(wrapper=True, trylast=True)
def pytest_runtest_call(item):
    yield
    file = os.open("acknowledged", os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.write(file, f"{item.name}\\n".encode())
    os.close(file)
"""
_ENDS_WITHIN_S = 120
_WATCHED = ("pytest", "pytest's group", "worker of xdist")
SIGNALS = (*[signal.SIGKILL] * 6, signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


class Campaign:
    """One session that is killed in until it ends, and the session that goes on with it."""

    def __init__(self, project: Project, number: int, chance: random.Random) -> None:
        self.project, self.chance = project, chance
        self.killing = Killing(project)
        self.has_ray = number % RAY_IN == RAY_IN - 1
        self.workers = chance.choice([(), ("-n2",)])
        project.write("work.py", WORKS)
        project.write("conftest.py", CONFTEST)
        self.kills: Counter[str] = Counter()
        self.entries = 3 if self.has_ray else ENTRIES
        project.matrix(*map(self._entry, range(self.entries)), ray=RAY if self.has_ray else False)

    def _entry(self, number: int) -> dict[str, Any]:
        seconds = f"{self.chance.uniform(0.1, 0.8):.2f}"
        return {"name": f"e{number}", "script": "work.py", "args": f"e{number} {seconds} {self.project.folder}"}

    def kill_at_random(self, most: int) -> None:
        with self.killing.running("--benchmark", *self.workers, ROUND="killed") as process:
            while process.poll() is None and self.kills.total() < most:
                self._wait_for_a_moment(process)
                if process.poll() is None:
                    self._kill_one(process, is_last=self.kills.total() == most - 1)
            ends = time.monotonic() + _ENDS_WITHIN_S * busyness()
            while process.poll() is None and time.monotonic() < ends:
                self.killing.look()
                time.sleep(0.1)
            assert process.poll() is not None, f"pytest hangs after {self.kills}: {self.killing.output}"
            print(f"killed: {dict(self.kills)}; load {os.getloadavg()[0]:.1f}")
            self.killing.wait_until_nothing_is_left()
        assert not list(self._living_daemons()), self.kills

    def _wait_for_a_moment(self, process: subprocess.Popen[str]) -> None:
        """Anywhere in the session, however fast the machine is: before its first run, and in each that follows."""
        begun, ends = len(self._lines("executions")), time.monotonic() + 30 * busyness()
        enough = begun + self.chance.randint(0, 2)
        while process.poll() is None and len(self._lines("executions")) < enough and time.monotonic() < ends:
            self.killing.look()
            time.sleep(0.02)
        time.sleep(self.chance.uniform(0, 0.6))
        self.killing.look()

    def _lines(self, name: str) -> list[str]:
        file = self.project.folder / name
        return file.read_text().splitlines() if file.exists() else []

    def _kill_one(self, process: subprocess.Popen[str], is_last: bool) -> None:
        """Any process of the session; pytest's own at last."""
        others = [one.pid for one in self.project.processes() if one.pid != process.pid]
        is_pytest = is_last or not others or self.chance.random() < 0.1
        pid = process.pid if is_pytest else self.chance.choice(others)
        if self._is_spared(_kind(pid, process.pid)):
            return
        number, shown = self.chance.choice(SIGNALS), _kind(pid, process.pid)
        try:
            if pid == process.pid and self.chance.random() < 0.3:
                shown = "pytest's group"
                os.killpg(pid, number)
            else:
                os.kill(pid, number)
        except ProcessLookupError:
            return
        self.kills[f"{number.name} of {shown}"] += 1
        if shown == "script":
            self._remove_segment_of(pid)

    def _is_spared(self, kind: str) -> bool:
        """A guard and who it watches over are not both killed in one session, nor both keepers of a script."""
        killed = {one.partition(" of ")[2] for one in self.kills}
        if kind in ("guard", "keeper"):
            return bool(killed & {kind, *_WATCHED})
        return kind in _WATCHED and "guard" in killed

    def _remove_segment_of(self, pid: int) -> None:
        """What a script has in shared memory that somebody else ends nobody could have looked at."""
        time.sleep(0.1)
        Path(f"/dev/shm/{self.project.mark.value}-{pid}").unlink(missing_ok=True)

    def _living_daemons(self) -> Iterator[ProcessId]:
        """Read from the table of processes: they carry nothing by which they could be found."""
        deadline = time.monotonic() + nothing_left_within_s()
        for pid in map(int, self._lines("daemons")):
            while command(pid).startswith("sleep 600"):
                if time.monotonic() > deadline:
                    yield ProcessId(pid, 0)
                    break
                time.sleep(0.02)

    def called_passed(self) -> set[str]:
        """By a file, by a row, or to pytest."""
        found = set(self._rows())
        for path in self.project.session_dir.glob("e*/results.json"):
            found |= {path.parent.name} if json.loads(path.read_text())["verdict"] == "passed" else set()
        for path in self.project.session_dir.glob("e*/results.jsonl"):
            lines = map(json.loads, path.read_text().splitlines())
            found |= {path.parent.name for line in lines if line["verdict"] == "passed"}
        return found

    def acknowledged(self) -> set[str]:
        return set(self._lines("acknowledged"))

    def _rows(self) -> dict[str, str]:
        database = self.project.folder / "benchmark.db"
        if not database.exists():
            return {}
        query = "select name, uid from test_run where verdict = 'passed'"
        try:
            with sqlite3.connect(database) as connection:
                return dict(connection.execute(query).fetchall())
        except sqlite3.OperationalError:  # killed before it had tables
            return {}

    def go_on(self) -> None:
        """Nothing that was called passed runs again, and all of it is still there."""
        called, before = self.called_passed(), self._rows()
        assert self.acknowledged() <= called
        outcome = self.project.run("--benchmark", "--bench-resume", ROUND="resumed")
        assert outcome.code in (0, 5), outcome.output
        executed = [line.split() for line in self._lines("executions")]
        again = {name for name, which in executed if which == "resumed"} & called
        assert not again, f"{again} ran again after {self.kills}"
        rows = self._rows()
        assert set(rows) == {f"e{number}" for number in range(self.entries)}
        assert {name: rows[name] for name in before} == before
        with sqlite3.connect(self.project.folder / "benchmark.db") as connection:
            assert connection.execute("pragma integrity_check").fetchone() == ("ok",)
            assert connection.execute("select count(*) from test_run where verdict = 'running'").fetchone() == (0,)
        self.killing.wait_until_nothing_is_left()


def _kind(pid: int, pytest_pid: int) -> str:
    kinds = {
        "keeper_program": "keeper",
        "guard_program": "guard",
        "head_program": "head of Ray",
        "gcs_server": "Ray's gcs_server",
        "raylet/raylet": "raylet",
        "ray::": "worker of Ray",
        "work.py": "script",
        "exec(eval(": "worker of xdist",
        "ray/": "other process of Ray",
    }
    shown = command(pid)
    return "pytest" if pid == pytest_pid else next((kind for part, kind in kinds.items() if part in shown), "other")


@pytest.mark.parametrize("part", PARTS)
def test_kills_of_every_kind_lose_no_run_that_passed_and_leave_nothing(
    new_project: Callable[[], Project], part: int
) -> None:
    kills: Counter[str] = Counter()
    number = called = 0
    while kills.total() < KILLS_PER_PART:
        campaign = Campaign(new_project(), part + number, at_random(part, number))
        campaign.kill_at_random(min(MOST_PER_SESSION, KILLS_PER_PART - kills.total()))
        called += len(campaign.called_passed())
        campaign.go_on()
        kills += campaign.kills
        number += 1
        print(f"session {number}: {dict(campaign.kills)}")
    print(f"{kills.total()} kills in {number} sessions, {called} runs were called passed, none was lost: {dict(kills)}")
