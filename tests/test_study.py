"""`curator_bench.run_matrix`: the same as pytest, from Python; and the commands that look at what it left."""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
import warm
from hung_processes import outputs_of

import curator_bench
from curator_bench import study
from curator_bench.errors import BenchError
from curator_bench.measure.processes import busyness

SCRIPT = """\
import json, pathlib, pickle, sys, time

size, how, folder = int(sys.argv[1]), sys.argv[2], pathlib.Path(sys.argv[4])
if how == "full":
    raise MemoryError
if how == "slow":
    pathlib.Path("begun").touch()
    time.sleep(60)
(folder / "params.json").write_text("{}")
(folder / "metrics.json").write_text(json.dumps({"throughput": 2.5 * size}))
(folder / "tasks.pkl").write_bytes(pickle.dumps([]))
"""


def matrix(*how: str, **more: Any) -> dict[str, Any]:
    axes = {"size": [16, 2], "how": list(how)}
    return {
        "entries": [
            {"name": "sweep", "script": "work.py", "ray": False, "matrix": axes, "args": "{size} {how}", **more}
        ]
    }


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "work.py").write_text(SCRIPT)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTEST_ADDOPTS", "-p no:cacheprovider")
    return tmp_path


def bench(*words: str) -> str:
    outcome = warm.run("curator-bench", *words, cwd=Path.cwd())
    assert outcome.returncode == 0, outcome.stderr
    return outcome.stdout + outcome.stderr


def test_a_dict_is_run_and_its_results_are_there(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    limits = [{"metric": "throughput", "max_value": 20}]
    results = curator_bench.run_matrix(matrix("well", "full", requirements=limits), session="first", results="there")
    assert results.counts == {"crashed": 2, "passed": 1, "failed": 1}
    assert not results.passed
    assert {run.name: run.category for run in results.failures} == {
        "sweep[16-full]": "out of memory on host",
        "sweep[2-full]": "out of memory on host",
        "sweep[16-well]": "requirement",
    }
    table = results.pivot("throughput", rows="size", columns="how")
    assert table.as_csv().splitlines() == ["size,full,well", "2,crashed,5.0", "16,crashed,40.0"]
    assert {record["size"] for record in results.records()} == {"2", "16"}
    assert not any(name.startswith("machine.") for record in results.records() for name in record)
    assert results.directory == folder / "there" / "first"
    assert "sweep[2-well]: passed" in capsys.readouterr().out
    assert "sweep: 4 entries = 2 sizes × 2 hows (" in bench(
        "matrix", ".run_matrix.matrix.json", "--tree", "--results", "there"
    )
    assert "└─ 2: well ✓  full ✗ crashed" in bench("matrix", ".run_matrix.matrix.json", "--tree", "--results", "there")
    (folder / "work.py").write_text(SCRIPT + "# another\n")
    changed = bench("matrix", ".run_matrix.matrix.json", "--tree", "--results", "there")
    assert "sweep: 4 entries = 2 sizes × 2 hows (4 changed)" in changed
    assert "└─ 2: well ↻ changed  full ↻ changed" in changed
    assert "so --bench-resume runs them again:\n  sweep[16-well] (failed): its script changed\n" in changed
    several = ["--metric", "through", "--metric", "exec_time_s", "--format", "markdown"]
    captions = bench("pivot", "first", "--results", "there", "--rows", "size", *several).splitlines()
    titles = [line.partition(";")[0] for line in captions if line and "|" not in line and "Database: " not in line]
    assert titles == ["throughput", "exec_time_s"]
    printed = bench("pivot", "first", "--results", "there", "--rows", "size", "--columns", "how", "--metric", "through")
    assert [line.split() for line in printed.splitlines()[:3]] == [
        ["size", "full", "well"],
        ["2", "crashed", "5"],
        ["16", "crashed", "40*"],
    ]
    broken = folder / "there" / "first" / "sweep" / "2" / "full" / "results.json"
    broken.write_text(broken.read_text()[:100])
    assert "└─ 2: well ↻ changed  full ✗ broken" in bench(
        "matrix", ".run_matrix.matrix.json", "--tree", "--results", "there"
    )
    said = bench("pivot", "first", "--results", "there", "--rows", "how", "--metric", "through")
    assert "sweep/2/full/results.json is broken; its entry is read from summary.json" in said


def test_values_that_break_a_line_are_quoted_in_the_tree(folder: Path) -> None:
    entries = [{"name": "a", "script": "work.py", "ray": False, "matrix": {"text": ["new\nline", "", "plain"]}}]
    (folder / "odd.json").write_text(json.dumps({"entries": entries}))
    assert bench("matrix", "odd.json", "--tree").splitlines()[2:] == ["   └─ 'new\\nline'  ''  plain"]


def test_what_is_no_session_has_no_pivot(folder: Path) -> None:
    (folder / "results" / "s" / "e").mkdir(parents=True)
    outcome = warm.run("curator-bench", "pivot", "results/s/e", "--rows", "entry", "--metric", "v", cwd=folder)
    assert outcome.returncode == 1
    assert "no session 'results/s/e' in results" in outcome.stderr


def test_a_file_is_run_quietly_where_it_says(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "matrix.json").write_text(json.dumps({**matrix("well"), "results_dir": "elsewhere"}))
    results = curator_bench.run_matrix("matrix.json", quiet=True, pytest_args=["-k", "16"])
    assert [run.name for run in results.runs] == ["sweep[16-well]"]
    assert results.passed
    assert results.directory.parent == folder / "elsewhere"
    assert capsys.readouterr().out == ""


def test_a_matrix_that_cannot_be_run_is_an_error_with_its_mistakes(folder: Path) -> None:
    with pytest.raises(BenchError, match=r"entries\[sweep\]\.script"):
        curator_bench.run_matrix({"entries": [{"name": "sweep"}]}, quiet=True)
    with pytest.raises(BenchError, match="no such file"):
        curator_bench.run_matrix("nowhere.yaml")
    with pytest.raises(BenchError, match="has no entries to run"):
        curator_bench.run_matrix(matrix("well"), quiet=True, pytest_args=["-k", "nothing"])


def test_ctrl_c_is_handed_on_and_nothing_is_left_running(folder: Path) -> None:
    program = f"import curator_bench; curator_bench.run_matrix({matrix('slow')!r}, session='stopped')"
    child = subprocess.Popen([sys.executable, "-c", program], stderr=subprocess.PIPE, text=True, start_new_session=True)
    while not (folder / "begun").exists():
        assert child.poll() is None
        time.sleep(0.1)
    os.kill(child.pid, signal.SIGINT)
    assert "KeyboardInterrupt" in outputs_of(child, 60)[1]
    run = json.loads((folder / "results" / "stopped" / "sweep" / "16" / "slow" / "results.json").read_text())
    assert run["verdict"] == "interrupted"


HEARS_CTRL_C_IN_ANOTHER_THREAD = """\
import pathlib, signal, threading, time
import curator_bench

def hear():
    while not pathlib.Path("begun").exists():
        time.sleep(0.05)
    time.sleep(0.2)
    signal.pthread_kill(threading.get_ident(), signal.SIGINT)

threading.Thread(target=hear, daemon=True).start()
"""


def test_ctrl_c_that_another_thread_receives_takes_effect_at_once(folder: Path) -> None:
    """As in a notebook, whose process has many threads. Nothing waits until pytest prints its next line."""
    program = f"{HEARS_CTRL_C_IN_ANOTHER_THREAD}curator_bench.run_matrix({matrix('slow')!r}, session='stopped')"
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=100 * busyness(), check=False
    )
    assert "KeyboardInterrupt" in done.stderr
    run = json.loads((folder / "results" / "stopped" / "sweep" / "16" / "slow" / "results.json").read_text())
    assert run["verdict"] == "interrupted"
    lasted = datetime.fromisoformat(run["ended_at"]) - datetime.fromisoformat(run["started_at"])
    assert lasted.total_seconds() < 20, "pytest prints a line after 30 s at the latest"


def test_options_of_the_fleet_are_those_of_pytest() -> None:
    words = study.fleet_options("local", [0, "GPU-1"], 4, "finished")
    assert words == [
        "--bench-fleet",
        "local",
        "--bench-gpus",
        "0,GPU-1",
        "--bench-max-runs",
        "4",
        "--bench-resume=finished",
    ]
    assert study.fleet_options(None, None, None, resume=True) == ["--bench-resume"]
    assert study.fleet_options(None, None, None, resume=False) == []


@pytest.mark.slow
def test_a_notebook_runs_a_fleet_and_goes_on_with_its_newest_session(folder: Path) -> None:
    """Its cells run in an event loop."""

    async def cells() -> tuple[Any, Any]:
        options: dict[str, Any] = {"fleet": "local", "gpus": [0], "max_runs": 1, "quiet": True}
        first = curator_bench.run_matrix(matrix("well", "full"), **options, pytest_args=["--bench-fleet-cpus", "2"])
        return first, curator_bench.run_matrix(matrix("well", "full"), resume="finished", quiet=True)

    first, second = asyncio.run(cells())
    assert first.counts == {"passed": 2, "crashed": 2}
    assert (second.session, second.counts) == (first.session, first.counts)
    assert [run.uid for run in second.runs] == [run.uid for run in first.runs]
    spans = sorted((run.started_at, run.ended_at) for run in first.runs)
    assert all(earlier[1] <= later[0] for earlier, later in itertools.pairwise(spans))


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"gpus": 0}, "--bench-gpus has an effect only with --bench-fleet"),
        ({"fleet": "local", "gpus": []}, "--bench-gpus: found ''"),
        ({"fleet": "local", "max_runs": 0}, "--bench-max-runs: found '0'"),
        ({"max_runs": 2}, "--bench-max-runs has an effect only with --bench-fleet"),
        ({"resume": "failed"}, "resume: found 'failed', expected True, False or one of passed, finished"),
        ({"pytest_args": "-k well"}, "pytest_args: found a text, expected a list of words"),
        ({"name": "../evil"}, "name: found '../evil', expected letters"),
        ({"name": ""}, "name: found ''"),
        ({"path_or_dict": 3}, "found 3, expected a path, or a dict"),
    ],
)
def test_what_cannot_be_meant_is_an_error_that_says_so(folder: Path, given: dict[str, Any], said: str) -> None:
    with pytest.raises(BenchError, match=re.escape(said)):
        curator_bench.run_matrix(**{"path_or_dict": matrix("well"), "quiet": True, **given})


def test_two_matrices_of_one_name_are_not_taken_for_each_other(folder: Path) -> None:
    outcomes: list[Any] = []

    def run(how: str) -> None:
        try:
            outcomes.append(curator_bench.run_matrix(matrix(how), quiet=True, session=how))
        except BenchError as error:
            outcomes.append(str(error))

    threads = [threading.Thread(target=run, args=(how,)) for how in ("well", "full")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    (refusal,) = [outcome for outcome in outcomes if isinstance(outcome, str)]
    assert "another matrix runs at this moment as " in refusal
    assert "run_matrix(…, name=…)" in refusal
    (ran,) = [outcome for outcome in outcomes if not isinstance(outcome, str)]
    assert {run.name for run in ran.runs} == {f"sweep[{size}-{ran.session}]" for size in (2, 16)}


def test_importing_the_package_stays_light() -> None:
    program = (
        "import sys, curator_bench; print(sorted(name for name in sys.modules if name.startswith('curator_bench')))"
    )
    outcome = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True)
    assert outcome.stdout.strip() == "['curator_bench', 'curator_bench.package']"


def test_what_users_and_extensions_need_can_be_imported_from_the_package() -> None:
    assert {name for name in curator_bench.__all__ if not hasattr(curator_bench, name)} == set()
    assert {"Plan", "RunRecord", "Verdict", "Sampler", "ClusterProvider", "Sink"} <= set(curator_bench.__all__)
