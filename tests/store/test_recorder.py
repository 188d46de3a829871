from __future__ import annotations

import math
import pickle
from datetime import UTC, datetime, timedelta, timezone
from typing import TYPE_CHECKING, Any

import pytest

from curator_bench.store.records import Figures
from curator_bench.store.scalars import scalar_of, value_of
from curator_bench.values import Check, Repeat, Subject, Verdict

if TYPE_CHECKING:
    from store.conftest import Bench


def test_a_run_is_there_while_it_runs_and_complete_when_it_has_ended(bench: Bench) -> None:
    recorder = bench.recorder()
    where: dict[str, Any] = {"host": "here", "boot_id": "a-boot", "pid": 4711, "process_start": 12345678.0}
    uid = recorder.start_run(bench.start(nodeid="dedup/matrix.yaml::removal[dense]", machine_id="m1", **where))
    assert bench.rows("test_run", "uid", "verdict", "pid", "end") == [(uid, "running", 4711, None)]

    figures = Figures(ray_version="2.60.0", average_memory=2.5e9, ray_num_cpus=4)
    recorder.finish_run(uid, bench.end(exit_code=0, figures=figures, call_outcome="passed", log_path="logs/x.log"))
    columns = (
        "name",
        "originalname",
        "verdict",
        "exit_code",
        "ray_version",
        "average_memory",
        "call_outcome",
        "log_path",
    )
    assert bench.rows("test_run", *columns) == [
        ("removal[dense]", "removal", "passed", 0, "2.60.0", 2.5e9, "passed", "logs/x.log")
    ]
    assert recorder.problems() == ()


def test_what_belongs_to_a_run_is_recorded_with_its_end(bench: Bench) -> None:
    recorder = bench.recorder()
    uid = recorder.start_run(bench.start())
    checks = (
        Check("rate", "min_value", 200, 187.5, met=False),
        Check("is_success", "exact_value", True, True, met=True),
        Check("rate", "min_value", 200, 187.5, met=False),
    )
    repeats = (Repeat(1, 0, 1.0, {"rate": 180.0}), Repeat(2, 0, 1.1, {"rate": 195.0}))
    params = {"executor": "ray_data", "scaling": {"min": 8}}
    recorder.finish_run(uid, bench.end(metrics={"rate": 187.5}, params=params, repeats=repeats, checks=checks))
    assert bench.rows("metric", "name", "value", "text") == [("rate", 187.5, None)]
    assert bench.rows("sample", "repeat", "metric", "value") == [(1, "rate", 180.0), (2, "rate", 195.0)]
    assert bench.rows("param", "name", "value") == [("executor", "ray_data"), ("scaling", '{"min": 8}')]
    assert bench.rows("requirement", "position", "metric", "bound", "limit", "actual", "met") == [
        (0, "rate", "min_value", "200", "187.5", False),
        (1, "is_success", "exact_value", "true", "true", True),
        (2, "rate", "min_value", "200", "187.5", False),
    ]


def test_samples_are_kept_only_where_a_run_was_repeated(bench: Bench) -> None:
    recorder = bench.recorder()
    uid = recorder.start_run(bench.start())
    recorder.finish_run(uid, bench.end(metrics={"rate": 1.0}, repeats=(Repeat(1, 0, 1.0, {"rate": 1.0}),)))
    assert bench.rows("sample", "metric") == []


METRICS: dict[str, Any] = {
    "whole": 12,
    "fraction": 0.1,
    "nothing": None,
    "true": True,
    "false": False,
    "nan": math.nan,
    "infinite": math.inf,
    "negative_infinite": -math.inf,
    "named_nan": "NaN",
    "more_than_a_double_holds": 2**53 + 1,
    "more_than_there_are": 10**400,
    "text": "blake2b",
    "text_of_a_number": "12",
    "text_of_a_truth": "true",
    "quoted": '"x"',
    "empty": "",
    "lone_surrogate_\ud800": "\ud800",
    "nul_\0": "a\0b",
    "nul_\ufffd": "the same name",
    "grüße": "grüße",
    "very_long_" + "x" * 5000: 1.0,
    "very_long_" + "x" * 4999 + "y": 2.0,
    "€" * 5000: 3.0,
}


def test_every_value_is_stored_alike_everywhere_and_comes_back(bench: Bench) -> None:
    recorder = bench.recorder()
    uid = recorder.start_run(bench.start())
    recorder.finish_run(uid, bench.end(metrics=METRICS, params=METRICS))
    assert recorder.problems() == ()
    stored = {name: (value, text) for name, value, text in bench.rows("metric", "name", "value", "text")}
    back = {name: scalar_of(*columns) for name, columns in stored.items()}
    for name in ("whole", "fraction", "nothing", "true", "false", "infinite", "more_than_there_are", "text"):
        assert back[name] == METRICS[name]
        assert isinstance(back[name], bool) == isinstance(METRICS[name], bool)
    assert stored["nan"] == stored["named_nan"] == (None, "NaN")
    assert stored["negative_infinite"] == (None, "-Infinity")
    assert stored["more_than_a_double_holds"] == (float(2**53), str(2**53 + 1))
    assert stored["true"] == (1.0, "true")
    assert isinstance(back["nan"], float)
    assert [back[name] for name in ("text_of_a_number", "text_of_a_truth", "quoted", "empty")] == [
        "12",
        "true",
        '"x"',
        "",
    ]
    assert back["grüße"] == "grüße"
    assert back["nul_\ufffd"] == "the same name"
    assert [value for name, (value, _) in sorted(stored.items()) if name.startswith("very_long_")] in ([1, 2], [2, 1])
    params = {name: value_of(text) for name, text in bench.rows("param", "name", "value")}
    assert params["whole"] == 12
    assert params["text_of_a_number"] == "12"
    assert len(stored) == len(params) == len(METRICS) - 1


def test_numbers_of_numpy_are_numbers(bench: Bench) -> None:
    import numpy as np

    recorder = bench.recorder()
    uid = recorder.start_run(bench.start())
    metrics: dict[str, Any] = {"a": np.int64(5), "b": np.float32(0.5), "c": np.bool_(True)}
    figures = Figures(average_memory=np.float64(1.5), peak_memory=math.nan, compute_time=math.inf)
    recorder.finish_run(uid, bench.end(metrics=metrics, figures=figures))
    assert bench.rows("metric", "name", "value")[:2] == [("a", 5.0), ("b", 0.5)]
    assert bench.rows("test_run", "average_memory", "peak_memory", "compute_time") == [(1.5, None, None)]


def test_times_are_stored_in_utc_and_come_back_so(bench: Bench) -> None:
    from sqlalchemy import select

    from curator_bench.store.schema import TestRun

    recorder = bench.recorder(database := bench.open())
    in_india = datetime(2026, 1, 23, 20, 0, tzinfo=timezone(timedelta(hours=5, minutes=30)))
    recorder.start_run(bench.start(start=in_india))
    with database.session() as session:
        run = session.scalars(select(TestRun)).one()
        assert run.start == in_india
        assert run.start.tzinfo is UTC


def test_a_run_whose_end_is_told_twice_is_what_it_was_told_last(bench: Bench) -> None:
    recorder = bench.recorder()
    uid = recorder.start_run(bench.start())
    repeats = (Repeat(1, 0, 1.0, {"rate": 1.0}), Repeat(2, 0, 1.0, {"rate": 2.0}))
    recorder.finish_run(uid, bench.end(metrics={"rate": 1.5, "gone": 1}, repeats=repeats, params={"a": 1}))
    recorder.finish_run(uid, bench.end(Verdict.FAILED, metrics={"rate": 2.5}))
    assert bench.rows("test_run", "uid", "verdict") == [(uid, "failed")]
    assert bench.rows("metric", "name", "value") == [("rate", 2.5)]
    assert bench.rows("sample", "value") == bench.rows("param", "value") == []


def test_a_run_taken_for_interrupted_is_put_right_when_it_ends(bench: Bench) -> None:
    recorder = bench.recorder(database := bench.open())
    uid = recorder.start_run(bench.start())
    with database.writing() as connection:
        connection.exec_driver_sql("UPDATE test_run SET verdict = 'interrupted', error = 'gone'")
    recorder.finish_run(uid, bench.end(metrics={"rate": 1.0}))
    assert bench.rows("test_run", "uid", "verdict", "error") == [(uid, "passed", None)]
    assert bench.rows("metric", "name") == [("rate",)]


def test_what_is_known_only_after_the_end_is_added(bench: Bench) -> None:
    recorder = bench.recorder()
    uid = recorder.start_run(bench.start())
    recorder.finish_run(uid, bench.end(call_outcome="passed"))
    recorder.note_teardown(uid, "failed")
    assert bench.rows("test_run", "call_outcome", "teardown_outcome") == [("passed", "failed")]


def test_a_heartbeat_reaches_the_runs_that_are_under_way(bench: Bench) -> None:
    recorder = bench.recorder()
    first, second, ended = (recorder.start_run(bench.start(name)) for name in ("a", "b", "c"))
    recorder.finish_run(ended, bench.end())
    before = dict(bench.rows("test_run", "name", "heartbeat_at"))
    recorder.heartbeat([first, ended])
    recorder.heartbeat([])
    after = dict(bench.rows("test_run", "name", "heartbeat_at"))
    assert [name for name in after if after[name] > before[name]] == ["a"]
    assert second


def test_a_session_is_joined_by_every_process_and_invocation_that_uses_its_name(bench: Bench) -> None:
    ray, curator = Subject("ray", "2.60.0"), Subject("nemo_curator", "1.0", "abc", dirty=False)
    newer = Subject("nemo_curator", "1.0", "def", dirty=False)
    for invocation, subjects in (("one", (ray, curator)), ("one", (ray, curator)), ("two", (ray, newer))):
        recorder = bench.recorder(invocation=invocation, subjects=subjects, reason="because")
        recorder.start_run(bench.start())
    assert bench.rows("bench_session", "name", "reason") == [("nightly", "because")]
    assert bench.rows("invocation", "uid", "host") == [("one", "here"), ("two", "here")]
    assert bench.rows("subject", "package", "commit") in (
        [("nemo_curator", "abc"), ("nemo_curator", "def"), ("ray", None)],
    )
    assert len(bench.rows("test_run", "session")) == 3
    assert len(set(bench.rows("test_run", "session"))) == 1


def test_the_same_name_in_another_directory_is_another_session(bench: Bench) -> None:
    database = bench.open()
    bench.recorder(database).start_run(bench.start())
    bench.results = bench.results.with_name("other_results")
    bench.recorder(database).start_run(bench.start())
    assert len(bench.rows("bench_session", "uid")) == 2


def test_the_end_of_an_invocation_is_recorded_also_when_it_ran_nothing(bench: Bench) -> None:
    recorder = bench.recorder()
    recorder.finish_invocation(5)
    ((status, start, end),) = bench.rows("invocation", "exit_status", "start", "end")
    assert status == 5
    assert str(end) > str(start)


def test_records_travel_between_processes(bench: Bench) -> None:
    from curator_bench.files.codec import to_document
    from curator_bench.store.records import InvocationRecord, SessionRecord, StoredRun, from_document

    session = SessionRecord("nightly", "/results", uid="a-session", subjects=(Subject("ray", "2.60.0"),))
    invocation = InvocationRecord("an-invocation", bench.moment, environment={"cores": 2})
    checks = (Check("rate", "min_value", 200, None, met=False, missing=True),)
    end = bench.end(metrics={"a": 1, "b": True}, repeats=(Repeat(1, 0, 1.0, {"a": 1}),), checks=checks)
    record = StoredRun(session, invocation, bench.start(pid=1), end)
    assert pickle.loads(pickle.dumps(record)) == record
    document = to_document(record)
    assert from_document({**document, "from_a_later_version": 1}) == record
    with pytest.raises(ValueError, match="not a run"):
        from_document({"schema_version": 1})
