"""What --benchmark records, as a user sees it: rows, the familiar query, kills, databases that cannot be written."""

from __future__ import annotations

import json
import os
import re
import signal
import sqlite3
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import warm
from hung_processes import outputs_of

from curator_bench.measure.processes import busyness

pytestmark = pytest.mark.slow

SCRIPT = """
import json, pathlib, sys, time
results = pathlib.Path(sys.argv[sys.argv.index("--benchmark-results-path") + 1])
time.sleep(float(sys.argv[1]))
results.joinpath("params.json").write_text(json.dumps({"size": 3}))
results.joinpath("metrics.json").write_text(json.dumps({"is_success": True, "docs_per_s": 12.5, "odd": float("nan")}))
"""
MATRIX = """
run_reason: nightly
subjects: [pytest]
datasets: [{name: corpus, formats: [{type: jsonl, path: /nowhere/corpus}]}]
entries:
  - name: quick
    script: work.py
    args: "0.3"
    ray: false
    matrix: {size: [1, 2]}
    requirements: [{metric: docs_per_s, min_value: 10}]
  - {name: slow, script: work.py, args: "60", ray: false, marks: [slow]}
  - {name: absent, script: work.py, args: "{dataset:corpus,jsonl}", ray: false}
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    tmp_path.joinpath("pytest.ini").write_text("[pytest]\n")
    tmp_path.joinpath("work.py").write_text(SCRIPT)
    tmp_path.joinpath("matrix.yaml").write_text(MATRIX)
    return tmp_path


def run(project: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    env = {name: value for name, value in os.environ.items() if name not in ("CURATOR_BENCH_DB", "DB_NAME")}
    return warm.run("pytest", "-p", "no:cacheprovider", "matrix.yaml", *arguments, cwd=project, env=env)


def rows(database: Path, query: str) -> list[tuple[Any, ...]]:
    with sqlite3.connect(database) as connection:
        return connection.execute(query).fetchall()


def test_two_runs_are_two_rows_and_the_familiar_query_prints(project: Path) -> None:
    for _ in range(2):
        assert run(project, "--benchmark", "-k", "quick").returncode == 0
    database = project / "benchmark.db"
    assert (
        rows(database, "select ray_version, average_memory > 0 from test_run where name = 'quick[1]'")
        == [(None, 1)] * 2
    )
    found = rows(
        database, "select originalname, path, verdict, setup_outcome, call_outcome, teardown_outcome from test_run"
    )
    assert found == [("quick", "matrix.yaml", "passed", "passed", "passed", "passed")] * 4
    assert rows(database, "select reason from bench_session") == [("nightly",)] * 2
    assert rows(database, "select package from subject") == [("pytest",)] * 2
    assert rows(database, "select met, actual from requirement") == [(1, "12.5")] * 4


def test_memory_of_a_script_too_short_to_be_sampled_is_null_and_no_requirement_fails_for_it(project: Path) -> None:
    project.joinpath("short.sh").write_text("""echo '{}' >"$2/params.json"; echo '{"a": 1}' >"$2/metrics.json"\n""")
    text = """
        ray: false
        entries:
          - name: short
            script: short.sh
            python: sh
            requirements: [{metric: peak_memory_bytes, max_value: 2000000000, max_regression: 10%}]
    """
    project.joinpath("matrix.yaml").write_text(text)
    outcome = run(project, "--benchmark")
    assert outcome.returncode == 0
    assert outcome.stdout.count("not measured: the run was too short") == 2
    assert rows(project / "benchmark.db", "select verdict, peak_memory, average_memory from test_run") == [
        ("passed", None, None)
    ]
    assert run(project, "--bench-inconclusive", "fail").returncode == 1


def test_without_benchmark_no_database_is_made(project: Path) -> None:
    assert run(project, "-k", "quick").returncode == 0
    assert not project.joinpath("benchmark.db").exists()


def test_an_invocation_that_is_refused_or_runs_nothing_leaves_no_session(project: Path) -> None:
    assert run(project, "--benchmark", "-k", "quick").returncode == 0
    project.joinpath("work.py").rename(project / "elsewhere.py")
    assert run(project, "--benchmark").returncode == pytest.ExitCode.USAGE_ERROR
    assert run(project, "--benchmark", "--collect-only").returncode == pytest.ExitCode.OK
    assert run(project, "--benchmark", "-k", "nothing").returncode == pytest.ExitCode.NO_TESTS_COLLECTED
    for table in ("bench_session", "invocation"):
        assert rows(project / "benchmark.db", f"select count(*) from {table}") == [(1,)]
    assert len(list(project.joinpath("results").iterdir())) == 1


def test_what_could_not_run_is_recorded_as_error(project: Path) -> None:
    assert run(project, "--benchmark", "-k", "absent").returncode == 1
    ((verdict, error, outcome),) = rows(project / "benchmark.db", "select verdict, error, call_outcome from test_run")
    assert (verdict, outcome) == ("error", "failed")
    assert "/nowhere/corpus" in error


def test_each_attempt_after_an_error_is_a_row_of_its_own(project: Path) -> None:
    text = """
        datasets: [{name: corpus, formats: [{type: jsonl, path: /nowhere/corpus}]}]
        entries: [{name: again, script: work.py, args: "{dataset:corpus,jsonl}", ray: false, retries: 2}]
    """
    project.joinpath("matrix.yaml").write_text(text)
    assert run(project, "--benchmark", "--bench-session", "s").returncode == 1
    found = rows(project / "benchmark.db", "select attempt, verdict, uid from test_run order by attempt")
    assert [(attempt, verdict) for attempt, verdict, _ in found] == [(1, "error"), (2, "error"), (3, "error")]
    result = json.loads(project.joinpath("results", "s", "again", "results.json").read_text())
    assert (result["attempt"], result["uid"]) == (3, found[-1][2])


def test_workers_record_side_by_side_in_one_invocation(project: Path) -> None:
    assert run(project, "--benchmark", "-k", "quick", "-n", "2").returncode == 0
    database = project / "benchmark.db"
    assert rows(database, "select count(*) from test_run where verdict = 'passed'") == [(2,)]
    assert rows(database, "select count(*), min(exit_status) from invocation") == [(1, 0)]
    ((environment,),) = rows(database, "select environment from invocation")
    assert json.loads(environment)["cores"] >= 1


def test_the_database_is_where_option_variable_and_ini_say(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert run(project, "--benchmark", "-k", "quick", "--benchmark-db", "there/own.db").returncode == 0
    assert rows(project / "there" / "own.db", "select count(*) from test_run") == [(2,)]
    project.joinpath("pytest.ini").write_text("[pytest]\nbenchmark_db = ini.db\n")
    assert run(project, "--benchmark", "-k", "quick").returncode == 0
    assert project.joinpath("ini.db").exists()


def test_a_killed_run_is_interrupted_when_the_database_is_next_opened(project: Path) -> None:
    assert run(project, "--benchmark", "-k", "quick").returncode == 0
    words = [sys.executable, "-m", "pytest", "-q", "matrix.yaml", "--benchmark", "-m", "slow"]
    with subprocess.Popen(words, cwd=project, stdout=subprocess.DEVNULL) as process:
        database = project / "benchmark.db"
        deadline = time.monotonic() + 60 * busyness()
        while not rows(database, "select 1 from test_run where verdict = 'running'"):
            assert time.monotonic() < deadline
            time.sleep(0.1)
        process.send_signal(signal.SIGKILL)
    assert rows(database, "select count(*) from test_run where verdict = 'running'") == [(1,)]
    for words in (["sessions"], ["show"], ["history", "slow"]):
        shown = warm.run("curator-bench", *words, cwd=project).stdout
        assert ("running" in shown, "interrupted" in shown) == (False, True), shown
    assert rows(database, "select count(*) from test_run where verdict = 'running'") == [(1,)]  # nothing was written
    assert run(project, "--benchmark", "-k", "quick").returncode == 0
    found = rows(database, "select verdict, count(*) from test_run group by verdict order by verdict")
    assert found == [("interrupted", 1), ("passed", 4)]


def test_ctrl_c_is_recorded_as_interrupted(project: Path) -> None:
    words = [sys.executable, "-m", "pytest", "matrix.yaml", "--benchmark", "-m", "slow"]
    with subprocess.Popen(words, cwd=project, stdout=subprocess.PIPE, text=True) as process:
        status = project / "results"
        deadline = time.monotonic() + 60 * busyness()
        while not list(status.glob("*/slow/logs/stdouterr.log")):
            assert time.monotonic() < deadline
            time.sleep(0.1)
        process.send_signal(signal.SIGINT)
        output, _ = outputs_of(process, 60)
    assert re.search(r"^slow +interrupted", output, re.MULTILINE)
    assert "!!! KeyboardInterrupt !!!" in output
    assert rows(project / "benchmark.db", "select verdict from test_run") == [("interrupted",)]


def test_a_database_that_cannot_be_opened_is_a_usage_error_in_one_line(project: Path) -> None:
    project.joinpath("benchmark.db").write_text("this is no database, whatever its name says\n" * 200)
    result = run(project, "--benchmark", "-k", "quick")
    assert result.returncode == pytest.ExitCode.USAGE_ERROR
    assert "benchmark.db" in result.stderr
    assert "Traceback" not in result.stdout + result.stderr


def test_secrets_of_the_command_line_are_not_recorded(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_TOKEN", "very-secret-value")
    project.joinpath("secret_matrix.yaml").write_text(
        'entries: [{name: s, script: work.py, args: "0 --token ${MY_TOKEN}", ray: false}]'
    )
    words = ["secret_matrix.yaml", "--benchmark", "--bench-reason", "very-secret-value"]
    warm.run("pytest", *words, cwd=project).check_returncode()
    written = [path for path in project.rglob("*") if path.is_file() and path.name not in ("work.py",)]
    assert not [path for path in written if b"very-secret-value" in path.read_bytes()]
