"""A session is killed at random moments and resumed until it is complete: nothing that is finished starts again."""

from __future__ import annotations

import json
import os
import random
import signal
import sqlite3
import subprocess
import time
from collections import Counter
from typing import TYPE_CHECKING

import pytest

from curator_bench.measure.processes import busyness

if TYPE_CHECKING:
    from end_to_end.conftest import Project

FULL = os.environ.get("CURATOR_BENCH_PROOF") == "full"
ENTRIES = 2000 if FULL else 200
KILLS = 20 if FULL else 2
RECORDED = ("--benchmark", "--benchmark-db", "runs.db", "-q", "-q")
NOTES_STARTS = """\
import os, pathlib, sys
with open("starts", "a") as file:
    file.write(sys.argv[1] + "\\n")
results = pathlib.Path(sys.argv[-1])
results.joinpath("params.json").write_text("{}")
results.joinpath("metrics.json").write_text('{"is_success": true}')
os._exit(0)
"""


def finished(project: Project) -> set[str]:
    """What both the directory and the database have a conclusive verdict of."""
    names = {path.parent.name for path in project.session_dir.glob("*/results.json") if _passed(path.read_bytes())}
    if not (project.folder / "runs.db").exists():
        return set()
    with sqlite3.connect(project.folder / "runs.db") as database:
        rows = database.execute("SELECT name FROM test_run WHERE verdict = 'passed'").fetchall()
    return names & {name for (name,) in rows}


def _passed(text: bytes) -> bool:
    try:
        return bool(json.loads(text)["verdict"] == "passed")
    except ValueError:
        return False


def started(project: Project) -> Counter[str]:
    file = project.folder / "starts"
    return Counter(file.read_text().split()) if file.exists() else Counter()


def run_and_kill(project: Project, after_starts: int, *options: str) -> None:
    before = started(project).total()
    process = project.start("--bench-resume", *RECORDED, *options, output=subprocess.DEVNULL)
    while process.poll() is None and started(project).total() < before + after_starts:
        time.sleep(0.01)
    time.sleep(random.random() * 0.2)
    if process.poll() is None:
        os.kill(process.pid, signal.SIGKILL)
    process.wait()
    deadline = time.monotonic() + 20 * busyness()
    while project.processes() and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not project.processes()


@pytest.mark.parametrize("fleet", [(), ("--bench-fleet", "local", "--bench-fleet-cpus", "2")], ids=["alone", "fleet"])
def test_nothing_that_is_finished_is_started_again(project: Project, fleet: tuple[str, ...]) -> None:
    if fleet and not FULL:
        entries, kills = ENTRIES // 4, 1
    else:
        entries, kills = ENTRIES, KILLS
    project.write("notes.py", NOTES_STARTS)
    names = [f"e{number}" for number in range(entries)]
    project.matrix(*({"name": name, "script": "notes.py", "args": name} for name in names))
    seed = random.randrange(1 << 30)
    print(f"seed {seed}")
    moments = random.Random(seed)
    for _ in range(kills):
        run_and_kill(project, moments.randint(0, max(1, entries // (kills + 1))), *fleet)
        done, before = finished(project), started(project)
        run_and_kill(project, 1, *fleet)
        again = {name for name in done if started(project)[name] > before[name]}
        assert not again
    done, before = finished(project), started(project)
    last = project.outcome(project.start("--bench-resume", *RECORDED, *fleet), within_s=entries + 60)
    assert last.code == 0, last.output
    assert {name for name in done if started(project)[name] > before[name]} == set()
    assert finished(project) == set(names)
    runs = json.loads((project.session_dir / "summary.json").read_text())["runs"]
    assert sorted(run["name"] for run in runs) == sorted(names)
    with sqlite3.connect(project.folder / "runs.db") as database:
        passed = database.execute(
            "SELECT name, count(*) FROM test_run WHERE verdict = 'passed' GROUP BY name"
        ).fetchall()
    twice = [name for name, count in passed if count > 1]
    print(f"{kills} kills, {len(names)} entries, {sum(started(project).values())} starts, passed twice: {twice}")
    assert not set(twice) & done
