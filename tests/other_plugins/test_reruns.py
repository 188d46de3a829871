"""pytest-rerunfailures: each rerun is a run of its own; pytest's outcome is that of the last."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ET
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from other_plugins.conftest import Repository

RERUN = ("--reruns", "2")


def test_a_rerun_of_an_entry_is_a_further_attempt_and_the_failed_one_stays(repository: Repository) -> None:
    output = repository.measure(*RERUN, "-k", "flaky and not test_", "benchmarks")
    assert repository.rows() == [("flaky", 1, "crashed"), ("flaky", 2, "passed")]
    assert "1 passed" in output
    assert "1 rerun" in output
    logs = repository.session.glob("flaky/**/stdouterr.log")
    assert sorted(str(log.relative_to(repository.session)) for log in logs) == [
        "flaky/attempt_2/logs/stdouterr.log",
        "flaky/logs/stdouterr.log",
    ]
    summary = json.loads((repository.session / "summary.json").read_text())
    assert summary["counts"] == {"passed": 1}


def test_a_rerun_of_a_python_benchmark_is_a_run_with_its_own_metrics(repository: Repository) -> None:
    repository.measure(*RERUN, "-k", "test_flaky", "benchmarks")
    rows = repository.rows("name, attempt, verdict, setup_outcome, call_outcome, teardown_outcome")
    assert rows == [
        ("test_flaky", 1, "failed", "passed", "failed", "passed"),
        ("test_flaky", 2, "passed", "passed", "passed", "passed"),
    ]
    runs = json.loads((repository.session / "summary.json").read_text())["runs"]
    assert [run["metrics"].get("second") for run in runs] == [1]
    assert "first" not in runs[0]["metrics"]


def test_an_attempt_whose_teardown_failed_stands_beside_the_others(repository: Repository) -> None:
    repository.write(
        "benchmarks/test_teardown.py",
        """
import pytest

tries = []


@pytest.fixture
def broken_the_second_time():
    tries.append(1)
    yield
    if len(tries) == 2:
        raise OSError("the disk is full")


def test_writes(broken_the_second_time, benchmark_time):
    with benchmark_time:
        assert len(tries) > 1
""",
    )
    output = repository.measure(*RERUN, "benchmarks/test_teardown.py")
    verdicts = ["failed", "error", "passed"]
    assert repository.rows() == [("test_writes", number + 1, verdict) for number, verdict in enumerate(verdicts)]
    table = [line.split()[1] for line in output.splitlines() if line.startswith("test_writes ")]
    assert table == verdicts


@pytest.mark.slow
def test_an_entry_is_run_again_in_a_fleet(repository: Repository) -> None:
    fleet = ("--bench-fleet", "local", "--bench-fleet-cpus", "2")
    repository.measure(
        *RERUN, *fleet, "-k", "(plain or axes or crashes or flaky) and not test_", "benchmarks", expect=1
    )
    runs = [("crashes", attempt, "crashed") for attempt in (1, 2, 3)] + [
        ("flaky", 1, "crashed"),
        ("flaky", 2, "passed"),
    ]
    once = [("axes[1-a]", 1), ("axes[1-b]", 1), ("axes[2-a]", 1), ("axes[2-b]", 1), ("plain", 1)]
    assert sorted(repository.rows()) == sorted([*runs, *((name, attempt, "passed") for name, attempt in once)])


def test_what_fails_each_time_fails_with_its_verdict(repository: Repository) -> None:
    output = repository.measure(*RERUN, "-k", "crashes", "-q", "benchmarks", expect=1)
    assert repository.rows("verdict") == ["crashed"] * 3
    assert output.splitlines()[0].split()[0] == "RRC"
    assert "CRASHED benchmarks/matrix.yaml::crashes" in output


@pytest.mark.parametrize("workers", [(), ("-n", "2")], ids=["here", "workers"])
def test_reruns_are_worded_by_their_plugin_and_last_runs_by_their_verdict(
    repository: Repository, workers: tuple[str, ...]
) -> None:
    output = repository.measure(*RERUN, *workers, "-v", "-k", "crashes or test_flaky", "benchmarks", expect=1)
    words = {
        name: [
            word
            for line in output.splitlines()
            if name in line
            for word in ("RERUN", "CRASHED", "PASSED")
            if word in line
        ]
        for name in ("matrix.yaml::crashes", "test_python.py::test_flaky")
    }
    assert words["matrix.yaml::crashes"][:3] == ["RERUN", "RERUN", "CRASHED"]
    assert words["test_python.py::test_flaky"] == ["RERUN", "PASSED"]


def test_no_letter_stands_between_the_lines_of_runs(repository: Repository) -> None:
    lines = repository.measure(*RERUN, "-k", "flaky and not test_", "benchmarks").splitlines()
    begins = lines.index("    Running flaky")
    own = [line.strip().partition(":")[0] for line in lines[begins : begins + 6]]
    assert own == ["Running flaky", "❌ flaky", "Logs", "Running flaky", "✅ flaky", "Logs"]


def test_sinks_and_junit_get_each_run_once(repository: Repository) -> None:
    matrix = repository.folder / "benchmarks" / "matrix.yaml"
    matrix.write_text(f"{matrix.read_text()}sinks: [{{name: jsonl, path: {repository.folder}/told.jsonl}}]\n")
    repository.measure(*RERUN, "-k", "flaky and not test_", "--junitxml", "junit.xml", "benchmarks")
    told = [json.loads(line) for line in (repository.folder / "told.jsonl").read_text().splitlines()]
    runs = [(run["start"]["name"], run["start"]["attempt"], run["end"]["verdict"]) for run in told]
    assert runs == repository.rows() == [("flaky", 1, "crashed"), ("flaky", 2, "passed")]
    verdicts = ET.parse(repository.folder / "junit.xml").findall(".//property[@name='verdict']")
    assert [verdict.get("value") for verdict in verdicts] == ["crashed", "passed"]


def test_a_rerun_is_not_taken_for_the_finished_run_of_another(repository: Repository) -> None:
    """--bench-resume=finished keeps runs that failed, but not the one that is tried again right now."""
    repository.measure(*RERUN, "-k", "flaky and not test_", "--bench-resume=finished", "benchmarks")
    assert repository.rows("verdict") == ["crashed", "passed"]


def test_fail_on_flaky_keeps_its_exit_code(repository: Repository) -> None:
    repository.measure(*RERUN, "--fail-on-flaky", "-k", "flaky and not test_", "benchmarks", expect=7)
