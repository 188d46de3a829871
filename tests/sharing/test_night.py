"""A night of benchmarks: recorded, gated and published, also if it is stopped or the record cannot be reached."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from hung_processes import outputs_of
from scratch_repository import environment, make_repository
from sharing.shared_records import command, database, files_of, recorded
from store.postgres_server import PostgresServer, start_server

from curator_bench.measure.processes import busyness


@pytest.fixture
def project(tmp_path: Path) -> Path:
    return make_repository(tmp_path / "project", seed=5, slower_at=None, commits=1).folder


@pytest.mark.slow
def test_a_night_is_recorded_gated_and_published(tmp_path: Path, project: Path) -> None:
    night = ("nightly", "--record", tmp_path / "record.db", "--site", tmp_path / "site", "--confirm", "1", "--")
    done = command(*night, "benchmarks", "--bench-runs", "12", cwd=project)
    assert "work_time_s is worse" not in done.stdout
    # The time of the script is real: on a busy machine it may become worse while the night lasts.
    assert done.returncode == (1 if "exec_time_s is worse" in done.stdout else 0), done.stdout + done.stderr
    assert recorded(tmp_path / "record.db") == {"work"}
    assert (tmp_path / "site" / "index.html").exists()
    there = tmp_path / "there"
    published = command("publish", tmp_path / "record.db", f"local://{there}", cwd=tmp_path)
    assert published.returncode == 0, published.stderr
    assert files_of(there) == files_of(tmp_path / "site")
    slower = project / "package.py"
    slower.write_text(slower.read_text().replace("0.05", "0.09"))
    done = command(*night, cwd=project)
    assert done.returncode == 1, done.stdout + done.stderr
    assert "work_time_s is worse than before" in done.stdout


@pytest.mark.slow
def test_a_night_is_set_by_variables_and_tells_its_options(tmp_path: Path, project: Path) -> None:
    variables = {"RECORD": str(tmp_path / "record.db"), "SITE": "", "WORK": "night", "REASON": "try"}
    done = command("nightly", cwd=project, **variables)
    assert done.returncode == 0, done.stdout + done.stderr
    assert recorded(tmp_path / "record.db") == {"work"}
    assert (project / "night" / "benchmark.db").exists()
    assert not (project / "site").exists()
    assert "try" in command("sessions", "--json", "--db", tmp_path / "record.db", cwd=project).stdout
    told = command("nightly", "--help", cwd=project).stdout
    assert [name for name in ("$RECORD", "$SITE", "$CONFIRM", "$WORK", "$REASON") if name not in told] == []


def test_a_night_that_ran_nothing_leaves_no_trace_in_the_record(tmp_path: Path, project: Path) -> None:
    record = tmp_path / "record.db"
    done = command("nightly", "--record", record, "--", "benchmarks", "-k", "nosuch", cwd=project)
    assert done.returncode == 5, done.stdout + done.stderr
    assert not record.exists()
    assert not (project / "site").exists()


def test_a_place_that_cannot_be_used_is_told_before_anything_is_measured(tmp_path: Path, project: Path) -> None:
    for words in (("--site", "s4://bucket/site"), ("--record", "s4://bucket/record.db")):
        done = command("nightly", *words, cwd=project)
        assert (done.returncode, "it does not know s4://" in done.stderr, done.stdout) == (2, True, "")
    assert not (project / "record.db").exists()


@pytest.mark.slow
def test_runs_that_did_not_reach_the_record_are_added_the_next_night(tmp_path: Path, project: Path) -> None:
    (tmp_path / "file").write_text("")
    night = ("nightly", "--site", "", "--work", "night")
    done = command(*night, "--record", tmp_path / "file" / "record.db", cwd=project)
    assert done.returncode == 2, done.stdout + done.stderr
    assert "Traceback" not in done.stderr
    record = database(tmp_path, "of_others")
    (project / "night").mkdir(exist_ok=True)
    database(project / "night", "benchmark")
    done = command(*night, "--record", record, cwd=project)
    assert done.returncode == 0, done.stdout + done.stderr
    assert recorded(record) == {"of_others", "benchmark", "work"}


SLOW = """import sys, time
from pathlib import Path
Path("started").touch()
time.sleep(600)
"""


@pytest.mark.slow
def test_what_a_night_measured_before_it_was_stopped_is_in_the_record(tmp_path: Path, project: Path) -> None:
    benchmarks = project / "benchmarks"
    (benchmarks / "slow.py").write_text(SLOW)
    with (benchmarks / "matrix.yaml").open("a") as matrix:
        matrix.write("  - {name: slow, script: slow.py}\n")
    words = ["nightly", "--record", str(tmp_path / "record.db"), "--site", ""]
    with subprocess.Popen(
        [str(Path(sys.executable).parent / "curator-bench"), *words],
        cwd=project,
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as night:
        deadline = time.monotonic() + 60 * busyness()
        while not list(project.rglob("started")):
            assert time.monotonic() < deadline
            time.sleep(0.05)
        os.kill(night.pid, signal.SIGTERM)
        _, said = outputs_of(night, 60)
    assert night.returncode == 128 + signal.SIGTERM, said
    assert "stopped by SIGTERM" in said
    assert recorded(tmp_path / "record.db") == {"work", "slow"}


@pytest.fixture
def server() -> Iterator[PostgresServer]:
    started = start_server()
    yield started
    started.close()


@pytest.mark.slow
def test_a_night_records_straight_on_a_server_and_no_argument_shows_its_url(
    tmp_path: Path, project: Path, server: PostgresServer
) -> None:
    (project / "conftest.py").write_text(
        "import pathlib, sys\n"
        "def pytest_unconfigure(config):\n"
        "    pathlib.Path(__file__).with_name('arguments').write_text(repr(sys.orig_argv))\n"
    )
    url = server.new_database()
    done = command("nightly", "--site", "site", cwd=project, RECORD=url)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "postgresql" not in (project / "arguments").read_text()
    assert (project / "site" / "index.html").exists()
    assert command("record", "get", url, "got.db", cwd=project).returncode == 0
    assert recorded(project / "got.db") == {"work"}
