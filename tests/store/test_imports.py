"""What was recorded elsewhere is taken in once, as what it was."""

from __future__ import annotations

import json
import math
import os
import random
import sqlite3
from collections.abc import Callable
from contextlib import closing, suppress
from copy import deepcopy
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import warm
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from curator_bench.errors import BenchError, Mistake
from curator_bench.importing.formats import format_of
from curator_bench.importing.found_runs import moment_of
from curator_bench.importing.importer import Imported, Importer
from curator_bench.repeats import combine
from curator_bench.store import unrecorded
from curator_bench.store.database import Database
from curator_bench.store.records import StoredRun
from curator_bench.values import Repeat, Verdict

if TYPE_CHECKING:
    from store.conftest import Bench

Content = Callable[[Database], dict[str, Any]]


def take_in(database: Database, path: Path) -> Imported:
    return Importer(database).add(format_of(path, combine).read(path))


def lines(path: Path, *documents: Any) -> Path:
    texts = (document if isinstance(document, str) else json.dumps(document) for document in documents)
    path.write_text("\n".join(texts) + "\n")
    return path


def measured(metric: str = "exec_time_s", value: Any = 1.5, **more: Any) -> dict[str, Any]:
    given = {"name": "sorting[quick]", "time": "2026-01-23T14:30:00Z", "commit": "3f2c1ab", **more}
    return {**given, "metric": metric, "value": value}


# --- lines of measurements


def test_measurements_of_one_name_time_and_commit_are_one_run(bench: Bench, tmp_path: Path, content: Content) -> None:
    file = lines(
        tmp_path / "m.jsonl",
        measured("exec_time_s", 1.5),
        measured("rate", 100, time=1769178600),  # the same moment
        measured("ok", True, unit="truth"),
        measured("exec_time_s", 2.5, time="2026-01-24T14:30:00+02:00", commit="later", branch="main"),
        measured("exec_time_s", float("nan"), name="other", path="x/y.yaml", machine="m1", commit=None),
    )
    database = bench.open()
    assert take_in(database, file) == Imported(added=3)
    assert bench.rows("test_run", "name", "originalname", "path", "machine_id", "verdict") == [
        ("other", "other", "x/y.yaml", "m1", "passed"),
        ("sorting[quick]", "sorting", "", None, "passed"),
        ("sorting[quick]", "sorting", "", None, "passed"),
    ]
    assert sorted(bench.rows("metric", "name", "value", "text"), key=repr) == [
        ("exec_time_s", 1.5, None),
        ("exec_time_s", 2.5, None),
        ("exec_time_s", None, "NaN"),
        ("ok", 1.0, "true"),
        ("rate", 100.0, None),
    ]
    assert bench.rows("param", "name", "value") == [("unit", "truth")]
    assert bench.rows("bench_session", "name", "branch") == [
        ("imported__2026-01-23", None),
        ("imported__2026-01-23__3f2c1ab", None),
        ("imported__2026-01-24__later", "main"),
    ]
    before = content(database)
    assert take_in(database, file) == Imported(known=3)
    assert content(database) == before


def test_runs_of_a_commit_and_a_day_are_a_session_unless_they_name_one(bench: Bench, tmp_path: Path) -> None:
    file = lines(
        tmp_path / "m.jsonl",
        *(measured(name=name, time=f"2026-01-23T{hour:02}:00:00") for hour, name in enumerate("abc")),
        measured(name="a", time="2026-01-23T04:00:00", commit="other"),
        measured(name="a", time="2026-01-25T04:00:00", session="nightly"),
        measured(name="b", time="2026-01-26T04:00:00", session="nightly"),
    )
    take_in(bench.open(), file)
    assert bench.rows("bench_session", "name", "commit") == [
        ("imported__2026-01-23__3f2c1ab", "3f2c1ab"),
        ("imported__2026-01-23__other", "other"),
        ("nightly", "3f2c1ab"),
    ]


def test_a_metric_measured_several_times_is_as_many_runs(bench: Bench, tmp_path: Path, content: Content) -> None:
    values = [1.0, 2.0, 1.0]
    file = lines(tmp_path / "m.jsonl", *(measured(value=value) for value in values), measured("rate", 5))
    database = bench.open()
    assert take_in(database, file) == Imported(added=3)
    assert [value for name, value in bench.rows("metric", "name", "value") if name == "exec_time_s"] == sorted(values)
    before = content(database)
    assert take_in(database, file) == Imported(known=3)
    assert content(database) == before


def test_a_file_that_has_grown_adds_what_is_new(bench: Bench, tmp_path: Path) -> None:
    file = lines(tmp_path / "m.jsonl", measured(value=1.0), measured(value=2.0))
    database = bench.open()
    take_in(database, file)
    lines(file, measured(value=1.0), measured(value=2.0), measured(value=3.0), measured("rate", 7))
    assert take_in(database, file) == Imported(added=1, completed=1, known=1)
    assert bench.rows("metric", "name", "value") == [
        ("exec_time_s", 1.0),
        ("exec_time_s", 2.0),
        ("exec_time_s", 3.0),
        ("rate", 7.0),
    ]


def test_a_file_per_metric_makes_the_same_runs_as_one_of_all(
    two_benches: tuple[Bench, Bench], tmp_path: Path, content: Content
) -> None:
    both = [measured(metric, 1.0, name=name) for metric in ("exec_time_s", "rate") for name in "ab"]
    at_once, one_by_one = (bench.open() for bench in two_benches)
    take_in(at_once, lines(tmp_path / "both.jsonl", *both))
    take_in(one_by_one, lines(tmp_path / "rate.jsonl", *both[2:]))
    take_in(one_by_one, lines(tmp_path / "time.jsonl", *both[:2]))
    assert content(at_once) == content(one_by_one)


def test_a_value_that_contradicts_what_is_recorded_is_a_mistake(bench: Bench, tmp_path: Path) -> None:
    database = bench.open()
    take_in(database, lines(tmp_path / "m.jsonl", measured(value=1.0)))
    file = lines(tmp_path / "n.jsonl", measured("rate", 5), measured(value=2.0))
    taken = take_in(database, file)
    assert [str(mistake) for mistake in taken.mistakes] == [
        f"{file}:1: exec_time_s of sorting[quick] is recorded as 1.0, not as 2.0"
    ]
    assert bench.rows("metric", "name", "value") == [("exec_time_s", 1.0), ("rate", 5.0)]


MISTAKES = [
    ({"name": "a", "metric": "m", "time": 1769178600}, "value is missing"),
    ({"name": "a", "metirc": "m", "value": 1, "time": 1769178600}, "metric is missing; is it 'metirc'?"),
    (measured(value="fast"), "value: found 'fast', expected a number"),
    (measured(value=None), "value: found None, expected a number"),
    (measured(value=[1]), "value: found [1], expected a number"),
    (measured(name=""), "name: found '', expected a text"),
    (measured(commit=12), "commit: found 12, expected a text"),
    (measured(time="yesterday"), "time: found 'yesterday': Invalid isoformat string: 'yesterday'"),
    (measured(time=1769178600000), "time: found 1769178600000: expected a time in the years 1990 to 2199"),
    (measured(time="0001-01-01"), "time: found '0001-01-01': expected a time in the years 1990 to 2199"),
    (measured(time=1e300), "time: found 1e+300: expected a time in the years 1990 to 2199"),
    (measured(time=True), "time: found True: expected a time: ISO 8601 or seconds since 1970"),
    ("[1, 2]", "expected an object {…}"),
    ('{"name": "half', "no JSON: Unterminated string"),
    ("[" * 100_000, "no JSON"),
]


@pytest.mark.parametrize(("line", "problem"), MISTAKES, ids=[problem[:40] for _, problem in MISTAKES])
def test_a_mistake_is_said_with_its_line_and_the_rest_is_taken_in(
    sqlite_bench: Bench, tmp_path: Path, line: Any, problem: str
) -> None:
    file = lines(tmp_path / "m.jsonl", measured(name="before"), "", line, measured(name="after"))
    taken = take_in(sqlite_bench.open(), file)
    assert [str(mistake)[: len(f"{file}:3: {problem}")] for mistake in taken.mistakes] == [f"{file}:3: {problem}"]
    assert "\n" not in str(taken.mistakes[0])
    assert sqlite_bench.rows("test_run", "name") == [("after",), ("before",)]


moments = st.integers(800_000_000, 5_600_000_000).map(lambda seconds: datetime.fromtimestamp(seconds, UTC))
measurements = st.fixed_dictionaries(
    {
        "name": st.sampled_from(["a", "b[1]"]),
        "metric": st.sampled_from(["x", "y"]),
        "value": st.floats(allow_nan=False) | st.booleans() | st.integers(-(10**20), 10**20),
        "time": st.sampled_from(["2026-01-23T14:30:00Z", "2026-01-24T14:30:00Z"]) | moments.map(datetime.isoformat),
    },
    optional={"commit": st.text(min_size=1), "machine": st.sampled_from(["m1", "m2"]), "session": st.text(min_size=1)},
)


@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(measurements, max_size=12))
def test_every_line_is_a_value_and_twice_is_once(
    sqlite_bench: Bench, tmp_path: Path, content: Content, documents: list[dict[str, Any]]
) -> None:
    database = sqlite_bench.open()
    with database.writing() as connection:
        for table in ("test_run", "bench_session"):
            connection.exec_driver_sql(f"DELETE FROM {table}")
    file = lines(tmp_path / "m.jsonl", *documents)
    assert take_in(database, file).mistakes == []
    assert len(content(database)["metric"]) == len(documents)
    before = content(database)
    assert take_in(database, file).added == 0
    assert content(database) == before
    database.close()


# --- unrecorded.jsonl


def test_what_the_recorder_kept_is_taken_in_and_completes_what_was_under_way(bench: Bench, content: Content) -> None:
    database = bench.open()
    recorder = bench.recorder(database, reason="because")
    under_way = bench.start("under way")
    recorder.start_run(under_way)
    repeats = tuple(Repeat(index, 0, 1.0, {"rate": float(index)}) for index in (1, 2))
    end = bench.end(metrics={"rate": 1.5}, params={"a": "1"}, repeats=repeats)
    other = bench.start("other")
    for start in (under_way, other):
        file = unrecorded.keep(bench.session_dir, StoredRun(recorder.session, recorder.invocation, start, end))
    unrecorded.keep(
        bench.session_dir, StoredRun(recorder.session, recorder.invocation, other, bench.end(Verdict.FAILED))
    )
    assert take_in(database, file) == Imported(added=1, completed=1)
    assert bench.rows("test_run", "name", "verdict") == [("other", "failed"), ("under way", "passed")]
    assert bench.rows("metric", "value") == [(1.5,)]
    assert len(bench.rows("bench_session", "uid")) == len(bench.rows("invocation", "uid")) == 1
    before = content(database)
    assert take_in(database, file) == Imported(known=2)
    assert content(database) == before


def test_a_half_written_line_of_it_is_said(bench: Bench) -> None:
    database = bench.open()
    recorder = bench.recorder(database)
    record = StoredRun(recorder.session, recorder.invocation, bench.start("whole"), bench.end())
    file = unrecorded.keep(bench.session_dir, record)
    with file.open("a") as more:
        more.write('{"schema_version": 1, "kind": "run"}\n{"kind": "run", "start": {"na')
    taken = take_in(database, file)
    assert (taken.added, [mistake.place.line for mistake in taken.mistakes]) == (1, [2, 3])
    assert str(taken.mistakes[0]) == f"{file}:2: this is not a run: end: missing, session: missing, start: missing"


# --- results.jsonl


def result(bench: Bench, repeat: int | None = 1, seconds: float = 60.0, **more: Any) -> dict[str, Any]:
    given = {
        "schema_version": 1,
        "name": "removal[dense]",
        "session": "nightly",
        "attempt": 1,
        "repeat": repeat,
        "ended_at": (bench.moment + timedelta(seconds=60 * (repeat or 1))).isoformat(),
        "verdict": "passed",
        "error": "",
        "exit_code": 0,
        "exec_time_s": seconds,
        "params": {"a": 1},
        "metrics": {"rate": float(repeat or 0), "ok": True},
    }
    return {**given, **more}


def entry_folder(bench: Bench) -> Path:
    folder = bench.session_dir / "removal" / "dense"
    folder.mkdir(parents=True)
    (bench.session_dir / "env").mkdir()
    (bench.session_dir / "env" / "here.json").write_text('{"host": "here", "machine_id": "m1"}')
    beside = {"name": "removal[dense]", "entry": "removal", "nodeid": "dedup/matrix.yaml::removal[dense]"}
    (folder / "results.json").write_text(json.dumps(beside))
    return folder


def test_the_repeats_of_results_jsonl_are_one_run(bench: Bench, content: Content) -> None:
    later = (bench.moment + timedelta(hours=1)).isoformat()
    file = lines(
        entry_folder(bench) / "results.jsonl",
        *(result(bench, repeat) for repeat in (1, 2, 3)),
        result(bench, 1, ended_at=later, metrics={"rate": 7.0}),
        result(bench, None, attempt=2, ended_at=later, verdict="error", error="no disk", exec_time_s=None, metrics={}),
    )
    database = bench.open()
    assert take_in(database, file) == Imported(added=3)
    columns = ("attempt", "name", "originalname", "path", "machine_id", "host", "verdict", "error", "duration")
    same = ("removal[dense]", "removal", "dedup/matrix.yaml", "m1", "here")
    assert bench.rows("test_run", *columns) == [
        (1, *same, "passed", None, 60.0),
        (1, *same, "passed", None, 180.0),
        (2, *same, "error", "no disk", 0.0),
    ]
    found = dict(bench.rows("metric", "name", "value"))
    assert found["rate_n"] == 3.0
    assert ("rate", 2.0) in bench.rows("metric", "name", "value")
    assert ("rate", 7.0) in bench.rows("metric", "name", "value")
    assert len([row for row in bench.rows("sample", "repeat", "metric") if row[1] == "rate"]) == 3
    before = content(database)
    assert take_in(database, file) == Imported(known=3)
    assert content(database) == before


def test_a_run_that_was_ended_between_two_repeats_is_one_run_with_its_last_word(bench: Bench) -> None:
    later = (bench.moment + timedelta(seconds=90)).isoformat()
    died: dict[str, Any] = {
        "ended_at": later,
        "verdict": "error",
        "error": "its node died",
        "exec_time_s": None,
        "metrics": {},
    }
    file = lines(entry_folder(bench) / "results.jsonl", result(bench, 1, uid="u"), result(bench, None, uid="u", **died))
    assert take_in(bench.open(), file) == Imported(added=1)
    assert bench.rows("test_run", "verdict", "error") == [("error", "its node died")]


def test_a_run_that_was_recorded_when_it_ran_is_not_added_from_its_results(bench: Bench) -> None:
    database = bench.open()
    recorder = bench.recorder(database)
    recorder.finish_run(recorder.start_run(bench.start()), bench.end())  # 90 s from the moment on
    file = lines(
        entry_folder(bench) / "results.jsonl",
        result(bench),
        result(bench, ended_at=(bench.moment + timedelta(days=1)).isoformat()),
        result(bench, attempt=2),
    )
    assert take_in(database, file) == Imported(added=2, known=1)
    assert len({session for (session,) in bench.rows("test_run", "session")}) == 1


def test_results_without_a_session_around_them_are_taken_in_too(bench: Bench, tmp_path: Path) -> None:
    file = lines(
        tmp_path / "results.jsonl",
        result(bench),
        {**result(bench), "verdict": "splendid"},
        {"metrics": {}, "verdict": 1},
    )
    taken = take_in(bench.open(), file)
    assert (taken.added, [mistake.place.line for mistake in taken.mistakes]) == (1, [2, 3])
    assert bench.rows("test_run", "originalname", "path", "machine_id") == [("removal", "", None)]
    assert bench.rows("bench_session", "name", "results_directory") == [("nightly", "")]


# --- pytest-benchmark

TIMED = """
import pytest

@pytest.mark.parametrize("size", [10, 20])
def test_sorting(benchmark, size):
    benchmark.extra_info["comparisons"] = size * 3
    benchmark.extra_info["how"] = "quick"
    benchmark.pedantic(sorted, args=(list(range(size, 0, -1)),), rounds=5)

class TestMore:
    def test_sum(self, benchmark):
        benchmark.pedantic(sum, args=([1, 2],), rounds=3)
"""


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What pytest-benchmark itself writes."""
    folder = tmp_path_factory.mktemp("timed")
    folder.joinpath("pytest.ini").write_text("[pytest]\n")
    folder.joinpath("test_timed.py").write_text(TIMED)
    words = ["-q", "-p", "no:cacheprovider", "-p", "no:curator_bench", "--benchmark-json", "out.json", "test_timed.py"]
    env = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    done = warm.run("pytest", *words, cwd=folder, env=env)  # in a worker of xdist it would measure nothing
    assert done.returncode == 0, done.stdout + done.stderr
    return folder / "out.json"


def test_benchmarks_of_pytest_benchmark_are_runs(bench: Bench, saved: Path, content: Content) -> None:
    database = bench.open()
    assert take_in(database, saved) == Imported(added=3)
    assert bench.rows("test_run", "name", "originalname", "path", "nodeid", "verdict") == [
        ("TestMore::test_sum", "TestMore::test_sum", "test_timed.py", "test_timed.py::TestMore::test_sum", "passed"),
        ("test_sorting[10]", "test_sorting", "test_timed.py", "test_timed.py::test_sorting[10]", "passed"),
        ("test_sorting[20]", "test_sorting", "test_timed.py", "test_timed.py::test_sorting[20]", "passed"),
    ]
    document = json.loads(saved.read_text())
    values = {(name, value) for name, value in bench.rows("metric", "name", "value")}
    for benchmark in document["benchmarks"]:
        assert ("median_s", benchmark["stats"]["median"]) in values
        assert ("ops_per_sec", benchmark["stats"]["ops"]) in values
    assert {("rounds", 5.0), ("comparisons", 30.0), ("comparisons", 60.0)} <= values
    assert set(bench.rows("param", "name", "value")) == {("size", "10"), ("size", "20"), ("how", "quick")}
    ((machine,),) = set(bench.rows("test_run", "machine_id"))
    assert str(machine).startswith("pytest-benchmark-")
    assert bench.rows("invocation", "host") == [(document["machine_info"]["node"],)]
    before = content(database)
    assert take_in(database, saved) == Imported(known=3)
    assert content(database) == before


def test_a_machine_is_the_same_one_when_it_only_was_started_anew(bench: Bench, saved: Path, tmp_path: Path) -> None:
    document = json.loads(saved.read_text())
    document["datetime"] = "2026-01-23T14:30:00+00:00"
    document["commit_info"] = {"id": "3f2c1ab", "dirty": True, "branch": "main", "time": None}
    document["machine_info"].update(release="another kernel", node="another name")
    document["machine_info"].setdefault("cpu", {})["hz_actual_friendly"] = "1.0 GHz"
    file = tmp_path / "again.json"
    file.write_text(json.dumps(document))  # all in a line
    database = bench.open()
    take_in(database, saved)
    assert take_in(database, file).added == 3
    assert len(set(bench.rows("test_run", "machine_id"))) == 1
    assert ("3f2c1ab", "main") in bench.rows("bench_session", "commit", "branch")


def test_mistakes_in_pytest_benchmark_say_where(bench: Bench, saved: Path, tmp_path: Path) -> None:
    document = json.loads(saved.read_text())
    document["benchmarks"][1] = {"name": "x"}
    file = tmp_path / "broken.json"
    file.write_text(json.dumps(document, indent=4))
    database = bench.open()
    taken = take_in(database, file)
    assert [str(mistake) for mistake in taken.mistakes] == [
        f"{file}: benchmarks[1]: expected an object with name, fullname and stats"
    ]
    file.write_text(json.dumps({**document, "datetime": None}))
    (mistake,) = take_in(database, file).mistakes
    assert "datetime: expected a time" in str(mistake)


# --- coiled/benchmarks


def coiled_database(path: Path, *, whole: bool = True) -> Path:
    """Of the columns their first and their last schema has."""
    texts = (
        "session_id name originalname path setup_outcome call_outcome teardown_outcome dask_version distributed_version"
    )
    first = f"{texts} coiled_runtime_version coiled_software_name python_version platform ci_run_url".split()
    numbers = [
        "duration",
        "average_memory",
        "peak_memory",
        "compute_time",
        "disk_spill_time",
        "serializing_time",
        "transfer_time",
    ]
    later = ["cluster_name", "cluster_details_url", "memray_profiles_url", "dask_expr_version"] if whole else []
    columns = [f"{name} VARCHAR" for name in [*first, *later]] + [f"{name} FLOAT" for name in numbers]
    if whole:
        columns += ["cluster_id INTEGER", "scheduler_cpu_avg FLOAT", "scheduler_memory_max FLOAT"]
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute(
            f'CREATE TABLE test_run (id INTEGER PRIMARY KEY, start DATETIME, "end" DATETIME, {", ".join(columns)})'
        )
    return path


def add_rows(path: Path, table: str, *rows: dict[str, Any]) -> None:
    with closing(sqlite3.connect(path)) as connection, connection:
        for row in rows:
            names, marks = ", ".join(f'"{name}"' for name in row), ", ".join("?" * len(row))
            connection.execute(f"INSERT INTO {table} ({names}) VALUES ({marks})", list(row.values()))


def coiled_run(name: str = "test_shuffle[tasks]", **more: Any) -> dict[str, Any]:
    given = {
        "session_id": "b4f1",
        "name": name,
        "originalname": name.partition("[")[0],
        "path": "benchmarks/test_dataframe.py",
        "setup_outcome": "passed",
        "call_outcome": "passed",
        "teardown_outcome": "passed",
        "start": "2022-10-06 14:15:33.618367",
        "end": "2022-10-06 14:16:33.618367",
        "duration": 60.0,
        "dask_version": "2022.9.2",
        "coiled_runtime_version": "upstream",
        "coiled_software_name": "coiled/x",
        "python_version": "3.9",
        "average_memory": 2.5e9,
    }
    return {**given, **more}


def test_a_database_of_coileds_suite_is_taken_in(bench: Bench, tmp_path: Path, content: Content) -> None:
    path = coiled_database(tmp_path / "theirs.db")
    none = dict.fromkeys(("start", "end", "duration", "average_memory"))
    add_rows(
        path,
        "test_run",
        coiled_run(cluster_id=12, cluster_name="c-1", scheduler_cpu_avg=0.5, memray_profiles_url="s3://x"),
        coiled_run("test_early", **none, setup_outcome="failed", call_outcome=None),
        coiled_run("test_failed", session_id="b4f2", call_outcome="failed"),
        coiled_run("test_skipped", session_id="b4f2", setup_outcome="skipped", call_outcome=None),
    )
    before_reading = path.read_bytes()
    database = bench.open()
    assert take_in(database, path) == Imported(added=4)
    assert bench.rows("test_run", "name", "verdict", "originalname", "average_memory", "cluster_id") == [
        ("test_early", "error", "test_early", None, None),
        ("test_failed", "failed", "test_failed", 2.5e9, None),
        ("test_shuffle[tasks]", "passed", "test_shuffle", 2.5e9, "12"),
        ("test_skipped", "skipped", "test_skipped", 2.5e9, None),
    ]
    assert {("exec_time_s", 60.0), ("average_memory_bytes", 2.5e9), ("scheduler_cpu_avg", 0.5)} <= set(
        bench.rows("metric", "name", "value")
    )
    assert ("memray_profiles_url", "s3://x") in bench.rows("param", "name", "value")
    assert bench.rows("bench_session", "name") == [("b4f1",), ("b4f2",)]
    assert set(bench.rows("subject", "package", "version")) == {("dask", "2022.9.2"), ("coiled-runtime", "upstream")}
    ((first, early),) = [tuple(bench.rows("test_run", "start")[:2])]
    assert first == early, "a run without a time was at that of the one before it"
    before = content(database)
    assert take_in(database, path) == Imported(known=4)
    assert content(database) == before
    assert path.read_bytes() == before_reading


def test_their_first_schema_will_do_and_runs_that_look_alike_are_several(bench: Bench, tmp_path: Path) -> None:
    path = coiled_database(tmp_path / "theirs.db", whole=False)
    add_rows(path, "test_run", coiled_run(start=None, end=None), coiled_run(), coiled_run(), coiled_run(start="never"))
    database = bench.open()
    taken = take_in(database, path)
    assert taken.added == 2
    assert [str(mistake) for mistake in taken.mistakes] == [
        f"{path}: test_run 1: neither this run nor one before it has a time",
        f"{path}: test_run 4: Invalid isoformat string: 'never'",
    ]


def test_runs_of_tpch_are_taken_in_with_what_they_were_told(bench: Bench, tmp_path: Path) -> None:
    path = coiled_database(tmp_path / "theirs.db")
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("CREATE TABLE tpch_run AS SELECT *, 0 AS scale, 0 AS query FROM test_run")
    add_rows(path, "tpch_run", {"id": 1, **coiled_run("test_query_1[dask]", path=None), "scale": 100, "query": 1})
    assert take_in(bench.open(), path).added == 1
    assert {("scale", "100"), ("query", "1")} <= set(bench.rows("param", "name", "value"))


# --- whatever stands in it

JUNK: list[Any] = [None, True, -1, 10**30, 1e308, math.nan, "", "\0", "x" * 3000, [], {}, {"a": [1]}]
JUNK += ["0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59-14:00", 1e12, "\ud800"]


def spoilt(document: dict[str, Any], numbers: random.Random) -> dict[str, Any]:
    """Somewhere in it stands what nobody expects there, or nothing."""
    copy = deepcopy(document)
    inside: Any = copy
    while True:
        name = numbers.choice(list(inside) if isinstance(inside, dict) else range(len(inside)))
        if isinstance(inside[name], dict | list) and inside[name] and numbers.random() < 0.7:
            inside = inside[name]
            continue
        inside[name] = numbers.choice(JUNK)
        if isinstance(inside, dict) and numbers.random() < 0.2:
            del inside[name]
        return copy


def test_whatever_a_value_is_it_is_taken_in_or_a_mistake_in_one_line(bench: Bench, saved: Path, tmp_path: Path) -> None:
    database = bench.open()
    recorder = bench.recorder(database)
    repeats = tuple(Repeat(index, 0, 1.0, {"rate": 1.0}) for index in (1, 2))
    kept = StoredRun(recorder.session, recorder.invocation, bench.start(), bench.end(repeats=repeats))
    originals = [result(bench), measured(path="x", machine="m"), json.loads(saved.read_text())]
    originals.append(json.loads(unrecorded.line_of(kept)))
    numbers = random.Random(4)
    for _ in range(60):
        for original in originals:
            file = lines(tmp_path / "in.jsonl", spoilt(original, numbers), spoilt(original, numbers))
            with suppress(BenchError):  # so little is left that the form is not known
                found = list(map(str, take_in(database, file).mistakes))
                assert all(mistake.startswith(f"{file}:") and "\n" not in mistake for mistake in found)


def test_whatever_a_cell_holds_it_is_taken_in_or_a_mistake(sqlite_bench: Bench, tmp_path: Path) -> None:
    path = coiled_database(tmp_path / "theirs.db")
    cells: list[Any] = [b"\xff", "x", -1, 1e308, None, "9999-12-31T23:59:59-14:00"]
    spoilt = [coiled_run() | {name: cell} for name in coiled_run() for cell in cells]
    add_rows(path, "test_run", coiled_run(), *spoilt)
    taken = take_in(sqlite_bench.open(), path)
    assert taken.added > len(cells)
    assert all(str(mistake).startswith(f"{path}: test_run ") for mistake in taken.mistakes)


# --- what a file is


def test_a_file_of_no_known_form_is_refused_in_one_line(sqlite_bench: Bench, tmp_path: Path) -> None:
    other = tmp_path / "other.db"
    with closing(sqlite3.connect(other)) as connection, connection:
        connection.execute("CREATE TABLE x (y)")
    ours = tmp_path / "ours.db"
    sqlite_bench.open().close()
    ours.write_bytes(Path(str(sqlite_bench.url.database)).read_bytes())
    corrupt = tmp_path / "corrupt.db"
    corrupt.write_bytes(b"SQLite format 3\0" + b"x" * 100)
    refusals = {
        tmp_path: "is a folder: name the files in it",
        other: "is a database with other tables: expected unrecorded.jsonl, results.jsonl",
        ours: f"is a database of curator-bench: `curator-bench merge {ours} --into …` adds its runs",
        corrupt: "cannot be read: ",
        lines(tmp_path / "words.txt", "just", "words"): "has an unknown format: expected unrecorded.jsonl",
        lines(tmp_path / "other.json", {"a": 1}): "has an unknown format",
        lines(tmp_path / "pretty.json", '{\n  "a": 1\n}'): "has an unknown format",
    }
    for path, problem in refusals.items():
        with pytest.raises(BenchError) as refusal:
            format_of(path, combine)
        assert str(refusal.value).startswith(f"{path} {problem}")
        assert "\n" not in str(refusal.value)


def test_an_empty_file_holds_nothing(sqlite_bench: Bench, tmp_path: Path) -> None:
    file = tmp_path / "unrecorded.jsonl"
    file.write_text("\n")
    assert take_in(sqlite_bench.open(), file) == Imported()


def test_a_first_line_that_is_broken_does_not_hide_what_the_file_is(sqlite_bench: Bench, tmp_path: Path) -> None:
    file = tmp_path / "m.jsonl"
    file.write_text("\ufeff" + '{"name": "half\n' + json.dumps(measured()) + "\r\n", encoding="utf-8")
    taken = take_in(sqlite_bench.open(), file)
    assert (taken.added, [mistake.place.line for mistake in taken.mistakes]) == (1, [1])
    assert isinstance(taken.mistakes[0], Mistake)


@pytest.mark.parametrize(
    "said", ["2026-01-23T14:30:00", "2026-01-23T14:30:00Z", "2026-01-23T20:00:00+05:30", 1769178600]
)
def test_times_are_in_utc_unless_they_say_otherwise(said: object) -> None:
    assert moment_of(said) == datetime(2026, 1, 23, 14, 30, tzinfo=UTC)
