"""Gates: a run that is worse than its history fails and says why; noise, other machines and no history do not."""

from __future__ import annotations

import itertools
import json
import math
import re
import uuid
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import warm

from curator_bench.hunting.bench import QUIET
from curator_bench.importing.found_runs import FoundRun
from curator_bench.importing.importer import Importer
from curator_bench.matrix import LoadRequest, definition_hash, load
from curator_bench.provenance.environment import machine_id
from curator_bench.store.database import database_url, open_for_reading, open_for_writing
from curator_bench.store.records import RunEnd, RunStart, SessionRecord, StoredRun
from curator_bench.values import Place, Verdict

if TYPE_CHECKING:
    from end_to_end.conftest import Outcome, Project

LEVEL = (1 + 0.02 * np.random.default_rng(3).standard_normal(30)).tolist()
TEN_PERCENT = {"metric": "sort_time_s", "max_regression": "10%"}
COUNTING = """
import argparse, json, pathlib
parser = argparse.ArgumentParser()
parser.add_argument("--benchmark-results-path", type=pathlib.Path)
parser.add_argument("values", nargs="+", type=float)
options = parser.parse_args()
count = pathlib.Path(__file__).with_name("count")
runs = int(count.read_text()) if count.exists() else 0
count.write_text(str(runs + 1))
metrics = {"is_success": True, "sort_time_s": options.values[min(runs, len(options.values) - 1)]}
options.benchmark_results_path.joinpath("params.json").write_text("{}")
options.benchmark_results_path.joinpath("metrics.json").write_text(json.dumps(metrics))
"""

BEFORE_IT_ENDS = """
import sqlite3
with sqlite3.connect(pathlib.Path(__file__).with_name("benchmark.db")) as opened, open("seen", "a") as seen:
    for verdict, in opened.execute("select verdict from test_run where nodeid is not null and verdict != 'running'"):
        seen.write(verdict + " ")
"""


class Gated:
    """A project with one entry that measures what it is told, and a history to hold it against."""

    def __init__(self, project: Project) -> None:
        self.project = project
        project.write("counting.py", COUNTING)

    def entry(self, *values: float, **requirement: Any) -> None:
        """The first run measures the first value, and so on."""
        requirements = [{**TEN_PERCENT, **requirement}] if requirement is not None else []
        args = " ".join(map(str, values))
        entry = {"name": "sort", "script": "counting.py", "args": args, "requirements": requirements}
        self.project.matrix(entry)

    def remember(self, values: Sequence[float], **told: Any) -> None:
        """As if every night one value had been measured; `told` is what else is recorded of these runs."""
        told = {"machine_id": machine_id(), "definition_hash": self.definition(), "metric": "sort_time_s", **told}
        metric, branch, commit = told.pop("metric"), told.pop("branch", "main"), told.pop("commit", None)
        session_name = told.pop("session", None)
        first = datetime.now(UTC) - timedelta(days=len(values) + told.pop("ago", 0))
        with open_for_writing(database_url(str(self.project.folder / "benchmark.db"))) as database:
            found = []
            for night, value in enumerate(values):
                start = RunStart("sort", "matrix.yaml", first + timedelta(days=night), **told)
                name = session_name or f"night_{start.start:%m_%d}"
                session = SessionRecord(name, "r", uuid.uuid4().hex, commit=commit or f"{night:040x}", branch=branch)
                end = RunEnd(Verdict.PASSED, start.start, metrics={metric: value})
                found.append(FoundRun(StoredRun(session, None, start, end), Place("", 0)))
            Importer(database).add(found)

    def definition(self) -> str | None:
        file = self.project.folder / "matrix.yaml"
        (entry,) = load(LoadRequest(files=(file,), working_dir=self.project.folder)).entries
        return definition_hash(entry)

    def run(self, *options: str) -> Outcome:
        return self.project.run(*options)

    def verdict(self) -> str:
        return str(self.project.outcome_of("sort")["verdict"])


@pytest.fixture
def gated(project: Project) -> Gated:
    return Gated(project)


def test_a_run_that_is_much_worse_fails_and_says_all_there_is_to_know(gated: Gated) -> None:
    gated.entry(1.3)
    gated.remember([*LEVEL, 1.29])
    outcome = gated.run("--bench-confirm", "0")
    assert outcome.code == 1
    assert gated.verdict() == "failed"
    assert outcome.has("<= 10 % worse", "sort_time_s is worse than before:")
    assert outcome.has("value      1.3 (the level of the 2 runs since it began is 1.295)")
    assert outcome.has("baseline   ", "change     +", "trend      ", "first seen in session night_")
    assert "95% confidence interval" in outcome.output
    (found,) = gated.project.outcome_of("sort")["requirements"]
    assert (found["bound"], found["limit"], found["met"]) == ("max_regression", 0.1, False)
    assert found["off_by_fraction"] == pytest.approx(0.3, abs=0.03)


def test_a_run_as_before_passes_and_so_does_a_better_one(gated: Gated) -> None:
    for value in (1.01, 0.7):
        gated.entry(value)
        gated.remember(LEVEL)
        assert gated.run().code == 0
        assert gated.verdict() == "passed"


def runs_of(gated: Gated) -> list[tuple[int, str, int | None]]:
    """The attempt, verdict and gate of each run that was recorded, the oldest first."""
    database = open_for_reading(database_url(str(gated.project.folder / "benchmark.db")))
    assert database is not None
    with database, database.reading() as connection:
        rows = connection.exec_driver_sql(
            "select attempt, verdict, met from test_run left join requirement on run = id"
            " where nodeid is not null order by id"
        )
        return [tuple(row) for row in rows]


def test_a_single_run_far_off_is_measured_again_by_default_and_says_how_long_that_took(gated: Gated) -> None:
    gated.entry(1.4, 1.01)
    gated.remember(LEVEL)
    outcome = gated.run()
    assert outcome.code == 0, outcome.output
    assert gated.project.folder.joinpath("count").read_text() in ("2", "3")
    assert outcome.has("1 entry was measured again for gates, which took ")
    assert gated.project.outcome_of("sort")["confirming_s"] > 0


def test_a_gate_beyond_its_limit_but_not_certainly_so_is_inconclusive_and_passes_unless_that_shall_fail(
    gated: Gated,
) -> None:
    gated.entry(1.12)
    gated.remember(LEVEL)
    once = ("--bench-confirm", "0")
    failed = gated.run(*once, "--bench-inconclusive", "fail", "--bench-session", "t")
    assert failed.code == 1
    assert failed.has("failed: 1 of 1 requirements is inconclusive", "sort_time_s may be worse than before:")
    outcome = gated.run(*once, "--benchmark", "--benchmark-db", "benchmark.db", "--junitxml", "junit.xml")
    assert outcome.code == 0, outcome.output
    assert outcome.has("warning: sort: sort_time_s max_regression is inconclusive: ")
    assert outcome.has("1 run passed with inconclusive gates")
    assert runs_of(gated) == [(1, "passed", None)]
    junit = (gated.project.folder / "junit.xml").read_text()
    assert 'name="inconclusive" value="sort_time_s max_regression"' in junit


def test_an_inconclusive_gate_is_measured_again_as_often_as_allowed_and_every_run_is_inconclusive(gated: Gated) -> None:
    gated.entry(1.25)
    gated.remember((1 + 0.12 * np.random.default_rng(5).standard_normal(8)).tolist())
    outcome = gated.run("--benchmark", "--benchmark-db", "benchmark.db")
    assert outcome.code == 0, outcome.output
    assert runs_of(gated) == [(1, "passed", None), (2, "passed", None), (3, "passed", None)]
    assert outcome.has("1 run passed with inconclusive gates", "1 entry was measured again for gates, which took ")


def test_a_regression_that_is_confirmed_fails_and_every_run_is_recorded(gated: Gated) -> None:
    gated.entry(1.3, 1.31)
    gated.remember(LEVEL)
    outcome = gated.run("--bench-confirm", "3", "--benchmark", "--benchmark-db", "benchmark.db")
    assert outcome.code == 1
    assert "the level of the 2 runs" in outcome.output
    assert gated.project.folder.joinpath("count").read_text() == "2"
    assert runs_of(gated) == [(1, "failed", 0), (2, "failed", 0)]
    assert verdicts_of_lines(gated) == ["failed", "failed"]


def verdicts_of_lines(gated: Gated) -> list[str]:
    (lines,) = gated.project.folder.glob("results/*/sort/results.jsonl")
    return [json.loads(line)["verdict"] for line in lines.read_text().splitlines()]


def test_every_run_of_an_item_that_passes_has_passed_once_it_is_judged_and_not_before(gated: Gated) -> None:
    gated.entry(1.4, 1.01)
    gated.project.write("counting.py", COUNTING + BEFORE_IT_ENDS)
    gated.remember(LEVEL)
    outcome = gated.run("--benchmark", "--benchmark-db", "benchmark.db")
    assert outcome.code == 0, outcome.output
    runs = runs_of(gated)
    assert len(runs) > 1
    assert {(verdict, met) for _, verdict, met in runs} == {("passed", 1)}
    assert set(verdicts_of_lines(gated)) == {"passed"}
    assert set(gated.project.folder.joinpath("seen").read_text().split()) == {"failed"}


def test_a_run_that_would_exceed_the_budget_is_not_measured_again_and_says_so(gated: Gated) -> None:
    gated.entry(1.4, 1.01)
    gated.remember(LEVEL)
    outcome = gated.run("--bench-confirm-budget", "0")
    assert gated.project.folder.joinpath("count").read_text() == "1"
    assert outcome.has("s more would exceed the budget of 0 s (--bench-confirm-budget)")


def test_what_hunts_start_is_not_measured_again(gated: Gated) -> None:
    assert ("--bench-confirm", "0") in set(itertools.pairwise(QUIET))


def test_a_script_that_crashes_when_it_is_measured_again_has_crashed(gated: Gated) -> None:
    gated.entry(1.4)
    script = gated.project.folder / "counting.py"
    script.write_text(COUNTING + "\nif runs: raise SystemExit(3)\n")
    gated.remember(LEVEL)
    assert gated.run("--bench-confirm", "1").code == 1
    assert gated.verdict() == "crashed"


def test_a_regression_goes_on_failing_however_short_the_history_is(gated: Gated) -> None:
    gated.entry(1.5)
    gated.remember([*LEVEL[:5], 1.5, 1.49])
    assert gated.run().code == 1


def test_what_is_no_number_fails_once(gated: Gated) -> None:
    gated.entry(math.nan)
    gated.remember(LEVEL)
    assert gated.run().has("1 of 1 requirements is not met")


def test_too_small_a_change_passes(gated: Gated) -> None:
    gated.entry(1.06)
    gated.remember([*LEVEL, *[1.06] * 5])
    assert gated.run().code == 0


@pytest.mark.parametrize("values", [[], LEVEL[:4]])
def test_without_enough_history_nothing_fails_and_no_database_is_made(gated: Gated, values: list[float]) -> None:
    gated.entry(9.0)
    if values:
        gated.remember(values)
    assert gated.run().code == 0
    assert (gated.project.folder / "benchmark.db").exists() is bool(values)
    (found,) = gated.project.outcome_of("sort")["requirements"]
    assert found["met"]
    assert f"not enough history: {len(values)} of at least 5 runs" in found["note"]


@pytest.mark.parametrize(
    ("told", "why"),
    [
        ({"machine_id": "other"}, "30 runs, because the machine was other"),
        ({"definition_hash": "0" * 64}, "30 runs, because the definition was another one (00000000"),
    ],
)
def test_only_like_is_compared(gated: Gated, told: dict[str, str], why: str) -> None:
    gated.entry(9.0)
    gated.remember(LEVEL, **told)
    outcome = gated.run()
    assert outcome.code == 0
    (warning,) = gated.project.outcome_of("sort")["warnings"]
    assert warning.startswith("not comparable with 30 runs, because ")
    assert why in warning
    assert why in outcome.output


OF_A_NODE = """
from curator_bench.runner.run_keys import MACHINE

def pytest_bench_run_started(item, plan):
    item.stash[MACHINE] = "the node"
"""


def test_a_run_of_a_fleet_is_compared_with_those_of_its_node(gated: Gated) -> None:
    gated.project.write("conftest.py", OF_A_NODE)
    gated.entry(9.0)
    gated.remember(LEVEL, machine_id="the node")
    assert gated.run().code == 1
    assert gated.verdict() == "failed"


def test_the_level_of_another_branch_can_be_the_baseline(gated: Gated) -> None:
    """On the branch it has been slow for long; compared with main it still is."""
    slow = [1.5 * value for value in LEVEL]
    for baseline, code in (("main", 1), ("previous", 0)):
        gated.entry(1.5, baseline=baseline)
        gated.remember(LEVEL, branch="main", ago=40)
        gated.remember(slow, branch="topic")
        assert gated.run().code == code


def test_a_commit_can_be_the_baseline(gated: Gated) -> None:
    gated.entry(1.3, baseline="abcdef12")
    gated.remember(LEVEL, commit="abcdef12" + "0" * 32)
    assert gated.run().code == 1
    gated.entry(1.3, baseline="12345678")
    outcome = gated.run()
    assert outcome.code == 0
    (found,) = gated.project.outcome_of("sort")["requirements"]
    assert "no comparable runs of 12345678" in found["note"]
    assert outcome.has("sort_time_s cannot be compared with anything: there are no comparable runs of 12345678")


def test_a_session_can_be_the_baseline_and_more_history_be_asked_for(gated: Gated) -> None:
    """It is as slow as the last thirty runs, and much slower than those of the release."""
    gated.entry(1.5, baseline="release")
    gated.remember(LEVEL, session="release", ago=40)
    gated.remember([1.5 * value for value in LEVEL])
    outcome = gated.run()
    assert outcome.code == 1
    assert "(release; 60 comparable runs)" in outcome.output
    gated.entry(1.5, baseline="release", min_history=61)
    assert gated.run().code == 0
    (found,) = gated.project.outcome_of("sort")["requirements"]
    assert "not enough history: 60 of at least 61 runs" in found["note"]


def test_what_is_accepted_is_the_level_that_gates_hold_against(gated: Gated) -> None:
    slow = [1.5 * value for value in LEVEL[:8]]
    gated.entry(1.5, 1.5, 2.4)
    gated.remember([*LEVEL[:20], *slow[:3]], ago=10)
    assert gated.run().code == 1
    words = ["accept", "sort", "sort_time_s", "--why", "it checks its input now", "--db", "benchmark.db"]
    warm.run("curator-bench", *words, cwd=gated.project.folder).check_returncode()
    assert gated.run().code == 0
    gated.remember(slow)
    assert gated.run().has("baseline   1.", "change     +6")


MANY = """
import pytest

@pytest.mark.parametrize("one", range(300))
def test_one(one):
    pass
"""


def test_of_many_that_are_tested_at_once_each_has_to_be_surer(gated: Gated) -> None:
    """Else something would fail, or be measured again, every night. A requirement is a test of its own."""
    gated.project.write("test_many.py", MANY)
    everything = ("--bench-fail-on", "regression")
    gated.project.matrix({"name": "sort", "script": "counting.py", "args": "1.06"})
    gated.remember(LEVEL)
    assert gated.run(*everything).code == 1
    gated.project.folder.joinpath("count").unlink()
    outcome = gated.run(*everything, "test_many.py")
    assert outcome.code == 0
    assert outcome.has("sort_time_s max_regression is inconclusive")
    assert gated.project.folder.joinpath("count").read_text() == "1"
    gated.entry(1.06, max_regression="3%")
    assert gated.run(*everything, "test_many.py").code == 1


def test_all_metrics_at_once_are_gated(gated: Gated) -> None:
    gated.project.matrix({"name": "sort", "script": "counting.py", "args": "1.4"})
    gated.remember(LEVEL)
    assert gated.run().code == 0
    outcome = gated.run("--bench-fail-on", "regression")
    assert outcome.code == 1
    assert gated.verdict() == "failed"
    assert "sort_time_s is worse than before" in outcome.output


def test_a_metric_that_should_be_more_may_be_declared(gated: Gated) -> None:
    gated.project.matrix(
        {
            "name": "sort",
            "script": "script.py",
            "args": f"--metrics {json.dumps(json.dumps({'documents': 50}))}",
            "requirements": [{"metric": "documents", "max_regression": 0.1, "better": "more"}],
        }
    )
    gated.remember([100 * value for value in LEVEL], metric="documents")
    outcome = gated.run()
    assert outcome.code == 1
    assert "documents is worse than before" in outcome.output


def test_a_database_that_cannot_be_read_fails_no_run(gated: Gated) -> None:
    gated.entry(9.0)
    gated.project.write("benchmark.db", "this is no database, but it is long enough to be read as if it were one " * 9)
    outcome = gated.run()
    assert outcome.code == 0
    (warning,) = gated.project.outcome_of("sort")["warnings"]
    assert warning.startswith("not compared with its history")


@pytest.mark.parametrize("option", ["--bench-confirm=-1", "--bench-confirm=x", "--bench-fail-on=everything"])
def test_what_cannot_be_meant_is_a_usage_error(gated: Gated, option: str) -> None:
    gated.entry(1.0)
    assert gated.run(option).code == 4


PYTHON_BENCHMARK = """
import pathlib

def test_sorts(record_metric):
    file = pathlib.Path(__file__).with_name("speed.txt")
    values = file.read_text().split()
    file.write_text(" ".join(values[1:]))
    record_metric("sort_time_s", float(values[0]))
"""


def test_a_python_benchmark_is_gated_too(project: Project) -> None:
    """The same test, night after night, in one invocation each; its history is what these recorded."""
    project.write("test_speed.py", PYTHON_BENCHMARK)
    project.write("speed.txt", " ".join(map(str, [*LEVEL[:6], 1.4, 1.4])))
    project.matrix()
    codes = []
    for night in range(8):
        words = ["--benchmark", "--bench-fail-on", "regression", "--bench-session", f"night_{night}", "test_speed.py"]
        outcome = project.run(*words)
        codes.append(outcome.code)
    assert (codes[:6], codes[-1]) == ([0] * 6, 1), outcome.output
    assert "sort_time_s is worse than before" in outcome.output


def checks_of(gated: Gated) -> dict[str, str]:
    return {check["bound"]: check["says"] for check in gated.project.outcome_of("sort")["requirements"]}


def test_twelve_times_slower_fails_its_gate_at_once(gated: Gated) -> None:
    gated.entry(12.0, 12.1, 12.0)
    gated.remember(LEVEL)
    outcome = gated.run()
    assert (outcome.code, gated.verdict(), checks_of(gated)) == (1, "failed", {"max_regression": "regression"})
    assert "regression, 1" in outcome.output
    assert not outcome.has("not certain")


def test_a_gate_that_cannot_see_its_limit_says_so_at_the_run(gated: Gated) -> None:
    noisy = (1 + 0.09 * np.random.default_rng(5).standard_normal(6)).tolist()
    gated.entry(1.0)
    gated.remember(noisy)
    outcome = gated.run()
    assert outcome.code == 0
    told = r"sort_time_s would miss a change of 10 %: noise of [\d.]+ % and 6 runs: changes below \d+ % cannot be seen"
    assert re.search(rf"warning: sort: {told}; `repeat: \d+` would see \d+ %", outcome.output), outcome.output


def test_gates_and_history_say_by_which_limit_they_judged_one_noisy_run(gated: Gated) -> None:
    noisy = (1 + 0.08 * np.random.default_rng(5).standard_normal(20)).tolist()
    gated.entry(1.2)
    gated.remember(noisy)
    outcome = gated.run("--benchmark", "--benchmark-db", "benchmark.db", "--bench-confirm", "0")
    assert checks_of(gated) == {"max_regression": "inconclusive"}
    assert re.search(r"max_regression is inconclusive: \d+\.\d% more in 1 run, limit 10%: noise may", outcome.output)
    words = ["history", "sort", "--db", "benchmark.db"]
    table = warm.run("curator-bench", *words, cwd=gated.project.folder).stdout
    assert re.search(r"sort_time_s .* inconclusive", table), table
    assert "VERDICT is about changes of 3% or more; gates judge by their own limits: sort_time_s 10%" in table
    values = warm.run("curator-bench", *words, "--metric", "sort_time_s", cwd=gated.project.folder).stdout
    told = r"newest runs: inconclusive \(\d+\.\d% more in 1 run, limit 3%: noise may explain it; "
    assert re.search(told, values), values
    blind = warm.run("curator-bench", "regressions", "--db", "benchmark.db", "--all", cwd=gated.project.folder).stdout
    lines = blind.partition("Blind: ")[2].splitlines()[1:]
    assert "sort sort_time_s" in lines[0]
    assert "; the limit of its gate is 10%" in lines[0]
    assert not [line for line in lines[1:] if "gate" in line]


def test_a_gate_says_the_word_that_history_and_regressions_say(gated: Gated) -> None:
    for value, word in ((12.0, "regression"), (1.0, "no change")):
        gated.entry(value)
        gated.remember(LEVEL)
        gated.run("--benchmark", "--bench-confirm", "0")
        assert checks_of(gated) == {"max_regression": word}
        words = ["history", "sort", "--json", "--db", "benchmark.db"]
        done = warm.run("curator-bench", *words, cwd=gated.project.folder)
        (entry,) = json.loads(done.stdout)["entries"]
        assert entry["judgements"]["sort_time_s"]["verdict"] == word
        (gated.project.folder / "benchmark.db").unlink()


CREPT = [value * 1.003**night for night, value in enumerate(1 + 0.01 * np.random.default_rng(7).standard_normal(60))]


def drift_gate(limit: str, value: float) -> dict[str, object]:
    requirement = {"metric": "sort_time_s", "max_drift": limit}
    return {"name": "sort", "script": "counting.py", "args": f"{value}", "requirements": [requirement]}


@pytest.mark.parametrize(("limit", "code", "word"), [("8%", 1, "drift"), ("60%", 0, "no drift")])
def test_drift_is_gated_by_its_limit(gated: Gated, limit: str, code: int, word: str) -> None:
    gated.project.matrix(drift_gate(limit, CREPT[-1]))
    gated.remember(CREPT)
    outcome = gated.run("--bench-confirm", "0")
    assert (outcome.code, checks_of(gated)) == (code, {"max_drift": word}), outcome.output
    assert outcome.has("sort_time_s has crept by +") is bool(code)


@pytest.mark.parametrize("runs", [3, 13])
def test_drift_of_a_young_history_is_not_judged_and_fails_nothing(gated: Gated, runs: int) -> None:
    gated.project.matrix(drift_gate("1%", 9.0))
    gated.remember(CREPT[:runs])
    assert gated.run("--bench-confirm", "0").code == 0
    (found,) = gated.project.outcome_of("sort")["requirements"]
    assert (found["says"], found["note"]) == ("no history", f"not enough history: {runs} of at least 14 runs")


@pytest.mark.parametrize(("limit", "is_blind"), [("5%", True), ("60%", False)])
def test_a_gate_on_drift_that_cannot_see_its_limit_says_so_at_the_run(gated: Gated, limit: str, is_blind: bool) -> None:
    gated.project.matrix(drift_gate(limit, 1.0))
    gated.remember((1 + 0.09 * np.random.default_rng(5).standard_normal(40)).tolist())
    outcome = gated.run("--bench-confirm", "0")
    assert checks_of(gated) == {"max_drift": "no drift"}
    told = r"sort_time_s would miss a drift of 5 %: noise of [\d.]+ % and 41 runs: changes below \d+ % cannot be seen"
    assert bool(re.search(told, outcome.output)) is is_blind, outcome.output
