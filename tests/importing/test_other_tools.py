"""Results of asv, pyperf, Google Benchmark, Bencher and github-action-benchmark are read.

The files in `data` were made by asv 0.6.6, pyperf 2.10 and Google Benchmark 1.9.5. That of asv's version 1 is one of
them in the older form; asv itself reads both as the same.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import warm
from click.testing import CliRunner

from curator_bench.cli import import_, import_files
from curator_bench.errors import BenchError, Mistake
from curator_bench.importing import bencher
from curator_bench.importing.formats import format_of
from curator_bench.importing.found_runs import FoundRun
from curator_bench.importing.importer import Importer
from curator_bench.metric_names import in_order
from curator_bench.repeats import combine
from curator_bench.store.records import StoredRun
from curator_bench.values import Verdict

DATA = Path(__file__).with_name("data")
ASV = DATA / "asv"


def read(path: Path) -> tuple[dict[str, StoredRun], list[Mistake]]:
    """Return the runs of a file by name, and its mistakes."""
    found = list(format_of(path, combine).read(path))
    runs = [item.record for item in found if isinstance(item, FoundRun)]
    return {run.start.name: run for run in runs}, [item for item in found if isinstance(item, Mistake)]


def number(run: StoredRun, metric: str) -> float:
    value = run.end.metrics[metric]
    assert isinstance(value, int | float)
    return value


def times(run: StoredRun) -> list[float]:
    values = [repeat.metrics["time_s"] for repeat in run.end.repeats]
    return sorted(value for value in values if isinstance(value, float))


def written(folder: Path, document: Any, name: str = "file.json") -> Path:
    path = folder / name
    path.write_text(document if isinstance(document, str) else json.dumps(document))
    return path


def command(folder: Path, *words: str) -> str:
    done = warm.run("curator-bench", *words, cwd=folder)
    assert done.returncode == 0, done.stderr
    return done.stdout


# --- asv


def test_asvs_results_are_runs_by_parameters_in_the_order_of_commits() -> None:
    found, mistakes = read(next(ASV.glob("rig/ce*.json")))
    assert mistakes == []
    verdicts = {name: run.end.verdict for name, run in found.items()}
    assert [name for name, verdict in verdicts.items() if verdict is Verdict.SKIPPED] == [
        "sorting.Sorting.time_sort[5000-sorted]",
        "sorting.Sorting.track_first[5000-sorted]",
    ]
    assert [name for name, verdict in verdicts.items() if verdict is Verdict.CRASHED] == ["sorting.time_fails"]
    run = found["sorting.Sorting.time_sort[1000-random]"]
    assert run.start.originalname == "sorting.Sorting.time_sort"
    assert (run.start.machine_id, run.start.path) == ("rig", "virtualenv-py3.11")
    assert run.session.commit is not None
    assert run.session.commit.startswith("ce71a764")
    assert run.end.params == {"count": "1000", "order": "random", "unit": "seconds"}  # no measured ones
    assert len(run.end.repeats) == run.end.metrics["time_s_repeat"] == 3
    assert times(run)[0] <= number(run, "time_s") <= times(run)[-1]
    assert run.invocation is not None
    assert run.invocation.environment is not None
    assert run.invocation.environment["machine"]["cpu"] == "a CPU"
    assert found["sorting.mem_list"].end.metrics == {"size_bytes": 8056}
    assert found["sorting.peakmem_list"].end.metrics.keys() == {"peakmem_bytes"}
    assert found["sorting.Sorting.track_first[1000-random]"].end.metrics == {"value": 852}


def test_asvs_statistics_of_samples_are_not_judged() -> None:
    found, _ = read(next(ASV.glob("rig/ce*.json")))
    metrics = found["sorting.Sorting.time_sort[1000-random]"].end.metrics
    assert {"time_s_number", "time_s_q_25"} <= metrics.keys()
    assert in_order(metrics, []) == ["time_s"]


def test_imported_runs_continue_the_entries_that_run_the_benchmarks_now(tmp_path: Path) -> None:
    shutil.copytree(ASV, tmp_path / "results")
    name = "sorting.Sorting.time_sort[1000-random]"
    said = {"name": name, "path": "asv_matrix.yaml", "metric": "time_s", "value": 1e-4, "time": "2030-01-01"}
    written(tmp_path, json.dumps({**said, "machine": "here"}), "now.jsonl")
    command(tmp_path, "import", "now.jsonl", "--db", "x.db")
    command(tmp_path, "import", "results", "--db", "x.db")
    told = command(
        tmp_path, "import", "results", "--continues", "asv_matrix.yaml", "--from-machine", "rig", "--db", "x.db"
    )
    assert "without an entry in asv_matrix.yaml, so by themselves: sorting." in told
    shown = json.loads(command(tmp_path, "history", name, "--json", "--db", "x.db"))
    assert [(one["path"], len(one["runs"])) for one in shown["entries"]] == [
        ("asv_matrix.yaml", 3),
        ("virtualenv-py3.11", 2),
    ]
    (tmp_path / "asv_matrix.yaml").touch()
    again = command(tmp_path, "import", "results", "--continues", "./asv_matrix.yaml", "--db", "x.db")
    assert "0 runs added" in again
    for words, problem in (
        (("--continues", "asv_matrx.yaml"), "did you mean"),
        (("--continues", "asv_matrix.yaml", "--from-machine", "rag"), "no run is of the machine 'rag'; found: rig"),
    ):
        done = warm.run("curator-bench", "import", "results", *words, "--db", "x.db", cwd=tmp_path)
        assert (done.returncode, problem in done.stderr) == (1, True), done.stderr


def test_both_versions_of_asvs_format_say_the_same() -> None:
    new, _ = read(next(ASV.glob("rig/43*.json")))
    old, mistakes = read(DATA / "asv_version_1.json")
    assert mistakes == []
    assert old.keys() == new.keys()
    for name, run in old.items():
        assert run.start == new[name].start
        assert (run.end.verdict, run.end.metrics) == (new[name].end.verdict, new[name].end.metrics)
        assert run.end.repeats == new[name].end.repeats


def test_a_folder_of_asv_is_read_at_once_and_twice_changes_nothing(tmp_path: Path) -> None:
    shutil.copytree(ASV, tmp_path / "results")
    (tmp_path / "results" / "monday").mkdir()  # a session of ours
    written(tmp_path / "results" / "monday", {"session": "monday"}, "manifest.json")
    assert "22 runs added" in command(tmp_path, "import", "results", "--db", "a.db")
    again = command(
        tmp_path, "import", "results", "results/rig/machine.json", "results/benchmarks.json", "--db", "a.db"
    )
    assert "0 runs added, 0 completed, 22 there already" in again
    shown = json.loads(command(tmp_path, "history", "sorting.mem_list", "--json", "--db", "a.db"))
    assert [run["commit"][:4] for run in shown["entries"][0]["runs"]] == ["43dd", "ce71"]


@pytest.mark.parametrize(
    ("change", "where"),
    [
        ({"date": "yesterday"}, "date"),
        ({"commit_hash": 7}, "commit_hash"),
        ({"results": {"time_x": 3}}, "results.time_x"),
    ],
)
def test_what_asv_never_wrote_is_a_mistake(tmp_path: Path, change: Mapping[str, Any], where: str) -> None:
    document = json.loads(next(ASV.glob("rig/43*.json")).read_text())
    found, mistakes = read(written(tmp_path, {**document, **change}))
    assert (found, [mistake.path for mistake in mistakes]) == ({}, [where])


def test_an_interrupted_import_says_that_it_can_be_continued(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Importer, "add", interrupted)
    outcome = CliRunner().invoke(import_.command, [str(ASV), "--db", str(tmp_path / "x.db")])
    assert (outcome.exit_code, outcome.stderr.splitlines()[0].partition(":")[0]) == (1, "interrupted")
    assert "the same command adds the others" in outcome.stderr


def test_a_mistake_in_a_folder_names_the_file(tmp_path: Path) -> None:
    shutil.copytree(ASV, tmp_path / "results")
    written(tmp_path / "results" / "rig", {"commit_hash": "abc"}, "broken.json")
    folder = tmp_path / "results"
    found = import_files.found_in(folder, format_of(folder, combine), "shown")
    (mistake,) = [one for one in found if isinstance(one, Mistake)]
    assert str(mistake).startswith("shown/rig/broken.json: date: ")


# --- pyperf and Google Benchmark


def test_values_of_all_processes_of_pyperf_are_samples() -> None:
    found, mistakes = read(DATA / "pyperf.json")
    assert (sorted(found), mistakes) == (["sort", "sum"], [])
    run = found["sort"]
    document = json.loads((DATA / "pyperf.json").read_text())
    values = sorted(value for process in document["benchmarks"][0]["runs"] for value in process.get("values", ()))
    assert times(run) == values
    assert values[0] < number(run, "time_s") < values[-1]
    assert run.end.metrics["time_s_n"] == len(values)
    assert number(run, "peak_memory_bytes") > 1e6
    assert run.start.python_version == "3.11.7 (64-bit)"
    assert run.start.machine_id == found["sum"].start.machine_id


def test_repetitions_of_google_benchmark_are_samples_and_its_times_seconds(tmp_path: Path) -> None:
    found, mistakes = read(DATA / "google_benchmark.json")
    assert (sorted(found), mistakes) == (["fails", "sum_million/64", "sum_million/8"], [])
    run = found["sum_million/8"]
    assert run.end.metrics["real_time_s"] == pytest.approx(615.489e-9, rel=1e-3)
    assert run.end.metrics["items"] == 3.5
    assert len(run.end.repeats) == 2
    assert run.start.originalname == "sum_million"
    assert (found["fails"].end.verdict, found["fails"].end.error) == (Verdict.CRASHED, "no data")
    document = json.loads((DATA / "google_benchmark.json").read_text())
    document["benchmarks"] = [one for one in document["benchmarks"] if one["run_type"] == "aggregate"]
    alone, _ = read(written(tmp_path, document))
    assert alone["sum_million/8"].end.metrics["real_time_s"] == pytest.approx(run.end.metrics["real_time_s"])
    assert alone["sum_million/8"].end.metrics["real_time_s_std"] == pytest.approx(140.494e-9, rel=1e-3)


# --- Bencher and github-action-benchmark

BMF = {
    "sort": {"latency": {"value": 88.0, "lower_value": 87.42, "upper_value": 88.88}, "throughput": {"value": 5.55}},
    "adapters::rust::parse[1-x]": {"time_s": {"value": 1e-07}},
}
ACTION = {
    "lastUpdate": 1700000000000,
    "repoUrl": "https://example.org/repo",
    "entries": {
        "Rust Benchmark": [
            {
                "commit": {"id": "a" * 40, "message": "First", "timestamp": "2026-01-01T00:00:00Z", "url": ""},
                "date": 1767225600000,
                "tool": "cargo",
                "benches": [
                    {"name": "bench_fib", "value": 254, "range": "± 35", "unit": "ns/iter"},
                    {"name": "size", "value": 3, "unit": "MiB", "extra": "stripped"},
                    {"name": "score", "value": 7.5, "unit": "points"},
                    {"name": "rate", "value": 12.5, "unit": "iter/sec"},
                ],
            }
        ]
    },
}


def test_bmf_goes_through_unchanged(tmp_path: Path) -> None:
    found, mistakes = read(written(tmp_path, BMF))
    assert mistakes == []
    assert found["sort"].end.metrics["latency_lower_value"] == 87.42
    assert (found["parse[1-x]"].start.path, found["parse[1-x]"].start.originalname) == ("adapters::rust", "parse")
    command(tmp_path, "import", "file.json", "--db", "a.db")
    command(tmp_path, "export", "--format", "bmf", "--db", "a.db", "--out", "out.json")
    assert json.loads((tmp_path / "out.json").read_text()) == BMF
    assert json.loads(command(tmp_path, "export", "--format", "bmf", "--db", "a.db", "--out", "-")) == BMF
    assert not (tmp_path / "-").exists()


def test_bmf_has_only_the_metrics_that_are_shown(tmp_path: Path) -> None:
    found, _ = read(written(tmp_path, BMF))
    more = {"machine.cpus": 8, "exit_code": 0, "latency_std": 0.1, "latency_min": 87, "latency_max": 89}
    run = found["sort"]
    run = replace(run, end=replace(run.end, metrics={**run.end.metrics, **more}))
    assert json.loads(bencher.text_of([run]))["sort"].keys() == BMF["sort"].keys()


def test_data_of_github_action_benchmark_is_read_in_its_units(tmp_path: Path) -> None:
    for text, name in (
        (json.dumps(ACTION, indent=2), "data.json"),
        (f"window.BENCHMARK_DATA = {json.dumps(ACTION)};", "data.js"),
    ):
        found, mistakes = read(written(tmp_path, text, name))
        assert mistakes == []
        metrics = {name: dict(run.end.metrics) for name, run in found.items()}
        assert metrics == {
            "bench_fib": {"time_s": pytest.approx(254e-9)},
            "size": {"size_bytes": 3 * 1024**2},
            "score": {"value": 7.5},
            "rate": {"ops_per_sec": 12.5},
        }
        run = found["bench_fib"]
        assert (run.session.commit, run.start.path) == ("a" * 40, "Rust Benchmark")
        assert run.end.params == {"unit": "ns/iter"}  # a range is measured
    results, mistakes = read(written(tmp_path, [{"name": "x", "unit": "ms", "value": 2}, {"name": "y"}], "list.json"))
    assert results["x"].end.metrics == {"time_s": pytest.approx(0.002)}
    assert [mistake.path for mistake in mistakes] == ["[1]"]


def test_our_runs_go_through_github_action_benchmark_unchanged(tmp_path: Path) -> None:
    shutil.copytree(ASV, tmp_path / "results")
    shutil.copy(DATA / "google_benchmark.json", tmp_path)
    command(tmp_path, "import", "results", "google_benchmark.json", "--db", "a.db")
    command(tmp_path, "export", "--format", "github-action-benchmark", "--db", "a.db", "--out", "data.js")
    text = (tmp_path / "data.js").read_text()
    tools = {suite["tool"] for suites in json.loads(text.partition("=")[2])["entries"].values() for suite in suites}
    assert tools == {"customSmallerIsBetter", "customBiggerIsBetter"}
    assert "0 runs added, 0 completed" in command(tmp_path, "import", "data.js", "--db", "a.db")
    command(tmp_path, "import", "data.js", "--db", "b.db")
    command(tmp_path, "export", "--format", "github-action-benchmark", "--db", "b.db", "--out", "again.js")
    assert (tmp_path / "again.js").read_text() == text


def test_files_without_a_time_have_that_of_the_file(tmp_path: Path) -> None:
    path = written(tmp_path, BMF)
    os.utime(path, (1767225600, 1767225600))
    found, _ = read(path)
    assert found["sort"].start.start.isoformat() == "2026-01-01T00:00:00+00:00"
    first = found["sort"].start.uid
    os.utime(path, (1767225700, 1767225700))
    assert read(path)[0]["sort"].start.uid == first


@pytest.mark.parametrize(
    "document",
    [
        {"a": {"b": 1}},
        {"a": {}},
        {"a": {"b": {"c": 1}}},
        [1, 2],
        [],
        "window.BENCHMARK = {}",
        {"benchmarks": {}, "context": {}},
    ],
)
def test_what_is_like_a_format_is_none(tmp_path: Path, document: Any) -> None:
    with pytest.raises(BenchError, match="unknown format"):
        format_of(written(tmp_path, document), combine)


@pytest.mark.parametrize(
    ("document", "mistakes"),
    [
        ({"a": {"b": {"value": "x"}}}, 1),
        ({**ACTION, "entries": {"s": [{"date": "x"}, {"date": 1, "benches": 1}, {"date": 1e300, "benches": []}]}}, 3),
        ("window.BENCHMARK_DATA = {", 1),
        ({"benchmarks": [{"runs": [1]}, {"runs": [{"metadata": {"date": "x"}}]}]}, 2),
        ({"context": {"num_cpus": 1, "date": "x"}, "benchmarks": []}, 1),
        ({"context": {"num_cpus": 1}, "benchmarks": [1, {"name": ""}]}, 2),
    ],
)
def test_broken_files_say_where(tmp_path: Path, document: Any, mistakes: int) -> None:
    found, wrong = read(written(tmp_path, document))
    assert (found, len(wrong)) == ({}, mistakes)
