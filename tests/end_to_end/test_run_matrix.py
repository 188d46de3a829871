"""A matrix run as its users run it: what they see for each verdict, in every mode, and what is left on disk."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ElementTree
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from end_to_end.conftest import Outcome, Project

VERDICTS = {
    "passes": "passed",
    "misses": "failed",
    "says_no": "failed",
    "crashes": "crashed",
    "times_out": "timeout",
    "lacks_a_variable": "error",
    "lacks_data": "error",
    "is_skipped": "skipped",
}


def all_verdicts(project: Project) -> None:
    """One entry for each verdict but `interrupted`."""
    numbers = """--metrics '{"throughput_docs_per_sec": 120.5, "num_removed": 7, "dedup": {"recall": 0.5}}'"""
    bounds: list[dict[str, Any]] = [
        {"metric": "throughput_docs_per_sec", "min_value": 200},
        {"metric": "num_removed", "exact_value": 7},
        {"metric": "troughput_docs_per_sec", "min_value": 1},
    ]
    project.matrix(
        project.entry("passes", numbers, requirements=bounds[1:2]),
        project.entry("misses", numbers, requirements=bounds),
        project.entry("says_no", """--metrics '{"is_success": false, "exit_code": 9}'"""),
        project.entry("crashes", "--say 'out of luck' --exit 3"),
        project.entry("times_out", "--sleep 600", timeout_s=1),
        project.entry("lacks_a_variable", "${NOWHERE_SET}"),
        project.entry("lacks_data", "--say {dataset:corpus,jsonl}"),
        project.entry("is_skipped", requires=["no_such_package"]),
        datasets=[{"name": "corpus", "formats": [{"type": "jsonl", "path": "/nowhere/corpus"}]}],
    )


@pytest.fixture(scope="module")
def ran(new_project: Callable[[], Project]) -> Callable[..., Outcome]:
    """The outcome of running all verdicts with some options; each way is run once for all tests."""
    known: dict[tuple[str, ...], Outcome] = {}

    def run(*options: str) -> Outcome:
        if options not in known:
            project = new_project()
            all_verdicts(project)
            known[options] = project.run(f"--junitxml={project.folder}/junit.xml", *options)
        return known[options]

    return run


def test_verdicts_have_lines_of_their_own_on_a_pipe(ran: Callable[..., Outcome]) -> None:
    outcome = ran()
    assert outcome.code == pytest.ExitCode.TESTS_FAILED
    assert outcome.lines.count("Started session s") == 1
    for entry, verdict in VERDICTS.items():
        mark = {"passed": "✅", "skipped": "⏭ "}.get(verdict, "❌")
        assert outcome.has(f"    Running {entry}", f"        {mark} {entry}: {verdict} in ")
    log = outcome.session_dir / "passes" / "logs" / "stdouterr.log"
    assert outcome.has("passes: passed in", f"        Logs: {log}")
    assert "\x1b" not in outcome.output


def test_an_unmet_requirement_shows_a_table_that_says_by_how_much(ran: Callable[..., Outcome]) -> None:
    lines = ran().lines
    top = lines.index("misses: failed: 2 of 3 requirements are not met")
    assert [line.split() for line in lines[top + 2 : top + 7]] == [
        ["metric", "bound", "actual", "off", "by"],
        ["throughput_docs_per_sec", ">=", "200", "120.5", "79.5", "(40", "%)"],
        ["troughput_docs_per_sec", ">=", "1", "missing", "-"],
        ["no", "such", "metric;", "nearest:", "throughput_docs_per_sec"],
        ["num_removed", "==", "7", "7", "met"],
    ]


def test_failures_are_told_in_words_without_a_traceback(ran: Callable[..., Outcome]) -> None:
    outcome = ran()
    assert outcome.has(
        "crashes: crashed: the script ended with exit code 3",
        f"The last lines of {outcome.session_dir}/crashes/logs/stdouterr.log:",
        "  out of luck",
        "times_out: timeout: stopped at timeout_s = 1 s",
        "  at work",
        "lacks_a_variable: error: matrix.yaml:1: entries[lacks_a_variable].args: environment variable NOWHERE_SET",
        "lacks_data: error: dataset corpus,jsonl not found: /nowhere/corpus (create it, or add `generate`)",
    )
    assert "Traceback" not in outcome.output
    assert "site-packages" not in outcome.output
    assert ".py:" not in outcome.output


def test_the_session_ends_with_a_table_and_its_folder(ran: Callable[..., Outcome]) -> None:
    outcome = ran()
    top = next(number for number, line in enumerate(outcome.lines) if line.split()[:2] == ["ENTRY", "VERDICT"])
    rows = [line.split() for line in outcome.lines[top + 1 : top + 1 + len(VERDICTS)]]
    assert {row[0]: row[1] for row in rows} == VERDICTS
    assert {row[3] for row in rows} <= {"s", "ms"}
    misses = next(line for line in outcome.lines[top:] if line.startswith("misses"))
    assert "throughput_docs_per_sec=120.5, num_removed=7" in misses
    assert outcome.has(f"Session: {outcome.session_dir}", "6 failed, 1 passed, 1 skipped in")


def test_a_verdict_is_the_word_of_its_line_in_the_short_summary(ran: Callable[..., Outcome]) -> None:
    outcome = ran()
    for entry, word in {
        "misses": "FAILED",
        "crashes": "CRASHED",
        "times_out": "TIMEOUT",
        "lacks_data": "ERROR",
    }.items():
        assert any(line.startswith(f"{word} matrix.yaml::{entry}") for line in outcome.lines)


def test_verbose_shows_the_verdict_as_a_word(ran: Callable[..., Outcome]) -> None:
    outcome = ran("-v")
    for entry, verdict in VERDICTS.items():
        assert any(line.startswith(f"matrix.yaml::{entry} {verdict.upper()}") for line in outcome.lines)
    assert "    Running " not in outcome.output
    assert outcome.has("ENTRY", f"Session: {outcome.session_dir}")


def test_quiet_shows_the_verdict_as_a_letter(ran: Callable[..., Outcome]) -> None:
    outcome = ran("-q")
    assert outcome.lines[0].split()[0] == ".FFCTEEs"
    assert "    Running " not in outcome.output
    assert not any(line.startswith("ENTRY") for line in outcome.lines)
    assert outcome.has("warning: says_no: the bench's own exit_code replaces", f"Session: {outcome.session_dir}")


def test_twice_quiet_hides_warnings_too(ran: Callable[..., Outcome]) -> None:
    assert "warning:" not in ran("-qq").output
    assert "warning: says_no" in ran().output


def test_workers_report_the_same(ran: Callable[..., Outcome]) -> None:
    outcome, alone = ran("-n2"), ran()
    assert outcome.code == alone.code
    for entry, verdict in VERDICTS.items():
        assert outcome.has(f"    Running {entry}", f" {entry}: {verdict} in ")
    names = {run["name"]: run["verdict"] for run in outcome.json("summary.json")["runs"]}
    assert names == VERDICTS
    assert outcome.has("misses: failed: 2 of 3 requirements are not met", "ENTRY", "6 failed, 1 passed, 1 skipped in")


def test_the_summary_on_disk_has_it_all(ran: Callable[..., Outcome]) -> None:
    summary = ran().json("summary.json")
    assert (summary["schema_version"], summary["session"]) == (1, "s")
    assert summary["counts"] == {
        verdict: list(VERDICTS.values()).count(verdict) for verdict in dict.fromkeys(VERDICTS.values())
    }
    runs = {run["name"]: run for run in summary["runs"]}
    assert runs["misses"]["metrics"]["dedup.recall"] == 0.5
    assert [check["met"] for check in runs["misses"]["requirements"]] == [False, True, False]
    assert runs["crashes"]["exit_code"] == 3
    assert "NOWHERE_SET" in runs["lacks_a_variable"]["error"]


def test_every_entry_leaves_its_results(ran: Callable[..., Outcome]) -> None:
    outcome = ran()
    for entry, verdict in VERDICTS.items():
        results = outcome.json(entry, "results.json")
        assert (results["schema_version"], results["verdict"], results["name"]) == (1, verdict, entry)
    passed = outcome.json("passes", "results.json")
    assert passed["params"] == {"sleep": 0.0}
    assert passed["metrics"]["num_removed"] == 7
    assert passed["command"][-2] == "--benchmark-results-path"


def test_junit_carries_the_verdict_and_the_metrics_as_properties(ran: Callable[..., Outcome]) -> None:
    outcome = ran()
    tree = ElementTree.parse(outcome.session_dir.parents[1] / "junit.xml")
    cases = {case.get("name"): case for case in tree.iter("testcase")}
    assert set(cases) == set(VERDICTS)
    for entry, verdict in VERDICTS.items():
        found = {one.get("name"): one.get("value") for one in cases[entry].iter("property")}
        assert found["verdict"] == verdict
    found = {one.get("name"): one.get("value") for one in cases["misses"].iter("property")}
    assert (found["num_removed"], found["dedup.recall"], found["exit_code"]) == ("7", "0.5", "0")
    failure = cases["misses"].find("failure")
    assert failure is not None
    assert "79.5 (40 %)" in str(failure.text)
    assert cases["is_skipped"].find("skipped") is not None


def test_a_second_invocation_joins_the_session(project: Project) -> None:
    project.matrix(project.entry("one"), project.entry("two", "--exit 1"))
    assert project.run("--bench-entries", "one").code == 0
    assert project.run("--bench-entries", "two").code == 1
    summary = project.run("--bench-entries", "one").json("summary.json")
    assert {run["name"]: run["verdict"] for run in summary["runs"]} == {"one": "passed", "two": "crashed"}


def test_a_script_that_is_nowhere_is_a_mistake_of_the_entries_that_were_selected(project: Project) -> None:
    project.matrix(
        {"name": "one", "script": "nowhere.py", "matrix": {"size": [1, 2]}},
        {"name": "other", "script": "gone.py"},
        project.entry("fine"),
    )
    refused = project.run("--bench-entries", "one,fine")
    assert refused.code == pytest.ExitCode.USAGE_ERROR
    assert "1 mistake in the benchmark matrix:" in refused.output
    assert "entries[one].script: the script 'nowhere.py' was not found; looked for" in refused.output
    assert f"{project.folder}/nowhere.py, {project.folder}/scripts/nowhere.py" in refused.output
    assert not (project.session_dir / "fine").exists()
    assert project.run("-k", "fine").code == 0


def test_a_script_whose_path_has_to_be_filled_in_is_an_error_of_its_entry(project: Project) -> None:
    project.matrix(
        {"name": "one", "script": "{size}.py", "matrix": {"size": [1]}},
        project.entry("fine"),
    )
    outcome = project.run()
    assert outcome.code == pytest.ExitCode.TESTS_FAILED
    assert outcome.has("one[1]: error: the script '1.py' was not found")
    assert project.outcome_of("fine")["verdict"] == "passed"


@pytest.mark.parametrize("below", ["", "/deeper"])
@pytest.mark.parametrize("options", [(), ("-n", "1")], ids=["alone", "with a worker"])
def test_results_that_cannot_be_written_are_a_usage_error_before_anything_runs(
    project: Project, below: str, options: tuple[str, ...]
) -> None:
    if options:
        pytest.importorskip("xdist")
    project.matrix(project.entry("one"), project.entry("two"))
    file = project.write("file", "no folder")
    outcome = project.run("--bench-results", f"{file}{below}", "--benchmark", *options)
    assert outcome.code == pytest.ExitCode.USAGE_ERROR, outcome.output
    said = [line for line in outcome.lines if str(file) in line]
    assert len(said) == 1, outcome.output
    assert said[0].startswith(f"ERROR: results cannot be written to {file}{below}: ")
    assert said[0].endswith("; name another folder with --bench-results")
    assert not project.folder.joinpath("benchmark.db").exists()


def test_only_an_error_is_tried_again_as_often_as_the_entry_says(project: Project) -> None:
    lacks_data = project.entry("lacks_data", "--say {dataset:corpus,jsonl}", retries=2)
    crashes, wrong = (
        project.entry("crashes", "--exit 3", retries=2),
        project.entry("wrong", "${NOWHERE_SET}", retries=2),
    )
    datasets = [{"name": "corpus", "formats": [{"type": "jsonl", "path": "/nowhere/corpus"}]}]
    project.matrix(lacks_data, crashes, wrong, datasets=datasets)
    outcome = project.run(f"--junitxml={project.folder}/junit.xml")
    assert outcome.code == pytest.ExitCode.TESTS_FAILED
    for entry, attempts in {"lacks_data": 3, "crashes": 1, "wrong": 1}.items():
        tried = (outcome.session_dir / entry / "results.jsonl").read_text().splitlines()
        assert [json.loads(line)["attempt"] for line in tried] == list(range(1, attempts + 1))
        assert project.outcome_of(entry)["attempt"] == attempts
    told = ElementTree.parse(project.folder / "junit.xml").findall(".//property[@name='verdict']")
    assert [one.get("value") for one in told] == ["error", "crashed", "error"]


def test_an_item_that_does_not_get_to_run_is_told_by_pytest(project: Project) -> None:
    """A fixture of the project's own that fails, and one that skips."""
    project.write(
        "conftest.py",
        """
        import pytest

        @pytest.fixture(autouse=True)
        def gate(entry):
            if entry.name == "one":
                raise RuntimeError("no gate for one")
            if entry.name == "two":
                pytest.skip("not today")
        """,
    )
    project.matrix(*map(project.entry, ("one", "two", "three")))
    outcome = project.run()
    assert outcome.has("    Running one", "    Running two", "three: passed in", "RuntimeError: no gate for one")
    assert outcome.has("1 passed, 1 skipped, 1 error")
    assert [run["name"] for run in outcome.json("summary.json")["runs"]] == ["three"]


def test_other_plugins_see_a_plan_before_and_a_result_after(project: Project) -> None:
    project.write(
        "conftest.py",
        """
        import dataclasses

        def pytest_bench_plan(item, plan):
            return dataclasses.replace(plan, args=(*plan.args, "--say", "said by a plugin"))

        def pytest_bench_run_finished(item, result):
            print(f"{item.name} was {result.verdict}, {result.metrics['is_success']}")
        """,
    )
    project.matrix(project.entry("one"))
    assert "one was passed, True" in project.run("-s").output
    assert (project.session_dir / "one" / "logs" / "stdouterr.log").read_text() == "said by a plugin\n"


def test_data_setups_run_once_for_all_workers_and_datasets_are_made_once(project: Project) -> None:
    project.write("prepare.py", "import time; open('setups', 'a').write('x'); time.sleep(1)")
    project.write(
        "make.py",
        """
        import sys, time
        from pathlib import Path
        Path(sys.argv[1]).parent.joinpath("makers").open("a").write("x")
        Path(sys.argv[1], "jsonl").mkdir()
        time.sleep(1)
        """,
    )
    project.matrix(
        *(project.entry(name, "--say {dataset:corpus,jsonl}") for name in ("one", "two", "three", "four")),
        data_setups=[{"name": "prepare", "script": "prepare.py"}],
        datasets=[
            {
                "name": "corpus",
                "formats": [{"type": "jsonl", "path": "data/corpus/jsonl"}, {"type": "csv", "path": "data/corpus/csv"}],
                "generate": {"script": "make.py", "args": "{dataset_dir}"},
            }
        ],
    )
    outcome = project.run("-n2")
    assert outcome.code == 0, outcome.output
    assert (project.folder / "setups").read_text() == "x"
    assert (project.folder / "data" / "makers").read_text() == "x"
    assert (project.session_dir / "data_setup" / "prepare" / "stdouterr.log").exists()
    assert (
        str(project.folder / "data" / "corpus" / "jsonl")
        in outcome.session_dir.joinpath("one", "logs", "stdouterr.log").read_text()
    )


def test_a_data_setup_that_fails_makes_its_entries_errors_that_name_it(project: Project) -> None:
    project.write("prepare.py", "open('setups', 'a').write('x'); raise SystemExit('no network')")
    setups = [{"name": "fleurs", "script": "prepare.py"}]
    project.matrix(*map(project.entry, ("one", "two", "three")), data_setups=setups)
    outcome = project.run("-n2")
    assert (project.folder / "setups").read_text() == "x"
    for name in ("one", "two", "three"):
        assert f"{name}: error: the data setup fleurs failed (exit code 1)" in outcome.output
    assert outcome.output.count("  no network") >= 3  # on a CI machine pytest's short summary says it all once more


NEMO_CURATOR_STYLE = '''
import argparse, json, os, pickle
from pathlib import Path
import ray


class Perf:
    """As nemo_curator's StagePerfStats is read: by attributes."""


@ray.remote
def clean(number):
    return number * 2


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--benchmark-results-path", required=True)
    parser.add_argument("--executor", default="ray_data")
    args = parser.parse_args()
    ray.init()
    cleaned = ray.get([clean.remote(number) for number in range(20)])
    results = Path(args.benchmark_results_path)
    results.mkdir(parents=True, exist_ok=True)
    begun = json.loads((results / "params.json").read_text())
    (results / "params.json").write_text(json.dumps(vars(args)))
    diagnostics = os.environ["NEMO_CURATOR_RAY_DATA_DIAGNOSTICS"]
    metrics = {"is_success": True, "diagnostics": diagnostics, "num_cleaned": len(cleaned),
               "cpus": ray.cluster_resources()["CPU"],
               "address": os.environ["RAY_ADDRESS"], "begun": json.dumps(begun)}
    (results / "metrics.json").write_text(json.dumps(metrics))
    tasks = [{"_stage_perf": [{"stage_name": "clean", "process_time": 0.5}]}]
    (results / "tasks.pkl").write_bytes(pickle.dumps(tasks))


if __name__ == "__main__":
    main()
'''


@pytest.mark.slow
def test_a_script_for_nemo_curators_runner_runs_unchanged_with_a_cluster_of_its_own(project: Project) -> None:
    """Among a stale address and a stale token file of the user's."""
    project.write("curator_benchmark.py", NEMO_CURATOR_STYLE)
    (project.folder / ".ray").mkdir()
    project.write(".ray/auth_token", "stale" * 12)
    entry = {"name": "removal", "script": "curator_benchmark.py", "args": "--executor ray_actors"}
    ray = {"num_cpus": 2, "num_gpus": 0, "enable_object_spilling": False}
    expected = {"num_cleaned": 20, "cpus": 2, "diagnostics": "1", "success": True, "timed_out": False}
    requirements = [{"metric": metric, "exact_value": value} for metric, value in expected.items()]
    keys = {"ray": ray, "requirements": requirements, "timeout_s": 60, "requires": ["ray"]}
    named = [*requirements, {"metric": "name", "exact_value": "removal"}]
    project.matrix(
        {**entry, **keys, "requirements": named},
        {**entry, **keys, "name": "again"},
        object_store_size=100_000_000,
        gpu_stats_recorder={"interval_s": 1.0},
    )
    stale = {"RAY_ADDRESS": "203.0.113.7:6379", "RAY_AUTH_TOKEN_PATH": "/nowhere"}
    outcome = project.run(HOME=str(project.folder), **stale)
    assert outcome.code == 0, outcome.output
    results = [outcome.json(name, "results.json") for name in ("removal", "again")]
    begun = {
        "object_store_size_bytes": 100_000_000,
        "ray_num_cpus": 2,
        "ray_num_gpus": 0,
        "ray_enable_object_spilling": False,
        "entry_timeout_s": 60,
    }
    assert json.loads(results[0]["metrics"]["begun"]) == begun
    chosen = {"benchmark_results_path", "executor"}
    assert {name: value for name, value in results[0]["params"].items() if name not in chosen} == begun
    assert results[0]["params"]["executor"] == "ray_actors"
    header = (outcome.session_dir / "removal" / "gpustats.csv").read_text()
    assert header.startswith("time,gpu,")
    assert header.count("\n") == 1
    assert results[0]["metrics"]["task_clean_process_time_mean"] == 0.5
    assert (results[0]["ray_num_cpus"], results[0]["ray_version"][:2]) == (2, "2.")
    assert results[0]["metrics"]["address"] != results[1]["metrics"]["address"]
    assert not project.processes()
