"""What can be asked of a database."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest
import sqlalchemy as sa

from curator_bench.errors import BenchError
from curator_bench.store import past_sessions, queries
from curator_bench.store.queries import EntryKey
from curator_bench.store.recorder import Recorder
from curator_bench.store.records import SessionRecord
from curator_bench.store.tables import RUNS
from curator_bench.values import Check, Subject, Verdict

if TYPE_CHECKING:
    from store.conftest import Bench

REMOVAL = EntryKey("removal[dense]", "dedup/matrix.yaml")


def record(
    bench: Bench, recorder: Recorder, hours: float, value: Any = 1.0, name: str = "removal[dense]", **more: Any
) -> str:
    verdict = more.pop("verdict", Verdict.PASSED)
    start = bench.start(name, start=bench.moment + timedelta(hours=hours), **{"machine_id": "m1", **more})
    recorder.start_run(start)
    recorder.finish_run(start.uid, bench.end(verdict, metrics={"rate": value}))
    return start.uid


def last_values(
    connection: sa.Connection, metric: str, machine: str | None, last: int, *also: sa.ColumnElement[bool]
) -> list[queries.PastValue]:
    """As gates read them."""
    of_entry = sa.and_(RUNS.c.name == REMOVAL.name, RUNS.c.path == REMOVAL.path, RUNS.c.machine_id == machine, *also)
    runs = [(time, row.id) for time, row in queries.runs_in_order(connection, of_entry)]
    return queries.last_values(connection, metric, runs, last)


def test_the_last_values_of_a_metric_are_those_of_one_entry_on_one_machine(bench: Bench) -> None:
    recorder = bench.recorder(database := bench.open(), commit="abc", branch="main")
    for hours, value in ((3, 3.0), (1, 1.0), (2, 2.0)):  # recorded in another order than they ran
        record(bench, recorder, hours, value)
    record(bench, recorder, 4, 99.0, machine_id="m2")
    record(bench, recorder, 4, 99.0, path="other.yaml")
    record(bench, recorder, 4, 99.0, name="removal[streaming]")
    record(bench, recorder, 5, 5.0, machine_id=None)
    recorder.finish_run(recorder.start_run(bench.start(machine_id="m1")), bench.end(metrics={"other": 99.0}))
    with database.reading() as connection:
        found = last_values(connection, "rate", "m1", 2)
        assert [(one.value, one.session, one.commit, *one.branches) for one in found] == [
            (2.0, "nightly", "abc", "main"),
            (3.0, "nightly", "abc", "main"),
        ]
        assert [one.value for one in last_values(connection, "rate", None, 9)] == [5.0]
        assert last_values(connection, "nothing", "m1", 9) == []


def test_values_come_back_as_they_were_measured_and_by_verdict(bench: Bench) -> None:
    recorder = bench.recorder(database := bench.open())
    for hours, (value, verdict) in enumerate([(True, "passed"), ("text", "failed"), (1.5, "crashed")]):
        record(bench, recorder, hours, value, verdict=Verdict(verdict), definition_hash="d1")
    with database.reading() as connection:
        found = last_values(connection, "rate", "m1", 9)
        assert [(one.value, one.verdict, one.series_hash) for one in found] == [
            (True, "passed", "d1"),
            ("text", "failed", "d1"),
            (1.5, "crashed", "d1"),
        ]
        chosen = last_values(connection, "rate", "m1", 9, RUNS.c.verdict.in_(("passed", "crashed")))
        assert [one.value for one in chosen] == [True, 1.5]


def test_the_last_values_are_found_without_looking_at_other_runs(bench: Bench) -> None:
    """The runs of the entry on the machine are found by the index made for this, and their values by its key."""
    database = bench.open()
    asked: list[str] = []
    with database.reading() as connection:

        @sa.event.listens_for(connection, "before_cursor_execute", retval=True)
        def explain(connection: Any, cursor: Any, statement: str, parameters: Any, *rest: Any) -> tuple[str, Any]:
            explained = "EXPLAIN QUERY PLAN " if connection.dialect.name == "sqlite" else "EXPLAIN "
            if connection.dialect.name == "postgresql":
                cursor.execute("SET LOCAL enable_seqscan = off; SET LOCAL enable_bitmapscan = off")
            cursor.execute(explained + statement, parameters)
            asked.extend(str(row) for row in cursor.fetchall())
            return statement, parameters

        last_values(connection, "rate", "m1", 50)
        queries.last_values(connection, "rate", [(0.0, 1)], 50)
    plan = "\n".join(asked)
    assert "ix_test_run_name_path_machine_id_start" in plan
    assert "SCAN test_run" not in plan
    assert ("pk_metric" if database.engine.dialect.name == "postgresql" else "metric USING PRIMARY KEY") in plan


def test_history_has_all_metrics_of_the_newest_runs_on_any_machine(bench: Bench) -> None:
    recorder = bench.recorder(database := bench.open(), commit="abc")
    for hours, machine in ((1, "m1"), (3, "m2"), (2, None)):
        record(bench, recorder, hours, float(hours), machine_id=machine)
    recorder.start_run(bench.start("removal[dense]", start=bench.moment + timedelta(hours=4)))
    with database.reading() as connection:
        found = queries.history(connection, REMOVAL, 3)
        assert [(run.machine_id, run.verdict, run.metrics) for run in found] == [
            (None, "passed", {"rate": 2.0}),
            ("m2", "passed", {"rate": 3.0}),
            (None, "running", {}),
        ]
        assert len(queries.history(connection, REMOVAL)) == 4
        assert [run.metrics for run in queries.history(connection, REMOVAL, 2, "nothing")] == [{}, {}]
        assert [run.start for run in queries.latest_runs(connection, REMOVAL, 3)] == [run.start for run in found]


@pytest.mark.parametrize(
    ("named", "names"),
    [
        ("removal[dense]", ["removal[dense]"]),
        ("removal", ["removal[dense]", "removal[streaming]"]),
        ("dedup/matrix.yaml::removal[dense]", ["removal[dense]"]),
        ("dedup/matrix.yaml::removal", ["removal[dense]", "removal[streaming]"]),
        ("test_x.py::TestIt::test_sort[1]", ["TestIt::test_sort[1]"]),
        ("TestIt::test_sort[1]", ["TestIt::test_sort[1]"]),
        ("test_sort", ["TestIt::test_sort[1]"]),
        ("matrix.yaml::removal[dense]", ["removal[dense]"]),  # from the folder of the file
    ],
)
def test_an_entry_is_found_by_any_of_its_names(bench: Bench, named: str, names: list[str]) -> None:
    recorder = bench.recorder(database := bench.open())
    for hours, name in enumerate(["removal[dense]", "removal[streaming]", "removal[dense]", "removals"]):
        record(bench, recorder, hours, name=name)
    record(bench, recorder, 1, name="TestIt::test_sort[1]", path="test_x.py", originalname="test_sort")
    with database.reading() as connection:
        assert [entry.name for entry in queries.find_entries(connection, named)] == names


def test_a_misspelt_name_is_said_with_the_nearest_that_exist(bench: Bench) -> None:
    recorder = bench.recorder(database := bench.open())
    record(bench, recorder, 1)
    with database.reading() as connection:
        with pytest.raises(BenchError, match=r"^no runs of 'remval' are recorded; did you mean 'removal'") as refusal:
            queries.find_entries(connection, "remval")
        assert "\n" not in str(refusal.value)
        with pytest.raises(BenchError, match=r"did you mean 'removal'"):
            queries.find_entries(connection, "mov")
        with pytest.raises(BenchError, match=r"no runs of 'atrix.yaml::removal' are recorded"):
            queries.find_entries(connection, "atrix.yaml::removal")
        with pytest.raises(
            BenchError, match=r"^no runs of 'zzz' are recorded; `curator-bench history` lists all entries$"
        ):
            queries.find_entries(connection, "zzz")
        with pytest.raises(BenchError, match=r"^no session or commit 'nigthly' is recorded; did you mean 'nightly'\?$"):
            past_sessions.find_sessions(connection, "nigthly")
        assert queries.metric_names(connection, [REMOVAL]) == ["rate"]


def test_known_entries_are_counted(bench: Bench) -> None:
    recorder = bench.recorder(database := bench.open())
    for hours, name in enumerate(["b", "a", "b"]):
        record(bench, recorder, hours, name=name)
    record(bench, recorder, 9, name="b", path="other.yaml")
    with database.reading() as connection:
        found = queries.known_entries(connection)
    assert [(one.key.name, one.key.path, one.runs) for one in found] == [
        ("a", "dedup/matrix.yaml", 1),
        ("b", "dedup/matrix.yaml", 2),
        ("b", "other.yaml", 1),
    ]


def sessions_at(bench: Bench, database: Any, days: dict[str, int]) -> None:
    """A session of each name, on its day."""
    from curator_bench.store.records import InvocationRecord

    for uid, day in days.items():
        moment = bench.moment + timedelta(days=day)
        session = SessionRecord(f"night {uid[0]}", str(bench.results), uid, subjects=(Subject("ray", "2"),))
        recorder = Recorder(database, session, InvocationRecord(f"i{uid}", moment, host="h", environment={"cores": 2}))
        recorder.finish_run(
            recorder.start_run(bench.start(start=moment)),
            bench.end(
                Verdict.FAILED, checks=(Check("rate", "min_value", 2, 1, met=False), Check("a", "b", 1, 1, met=True))
            ),
        )
        recorder.finish_run(recorder.start_run(bench.start("other", start=moment)), bench.end())


def test_sessions_come_by_when_they_began_whatever_the_order_they_were_recorded_in(bench: Bench) -> None:
    database = bench.open()
    sessions_at(bench, database, {"c-uid-1": 3, "a-uid-1": 1, "b-uid-1": 2, "a-uid-2": 0})
    with database.writing() as connection:  # as of imported runs, which nobody invoked
        connection.exec_driver_sql("DELETE FROM invocation WHERE uid = 'ib-uid-1'")
    with database.reading() as connection:
        newest = past_sessions.sessions(connection, 3)
        assert [session.name for session in newest] == ["night a", "night b", "night c"]
        assert [dict(session.verdicts) for session in newest] == [{"failed": 1, "passed": 1}] * 3
        assert [session.uid for session in past_sessions.find_sessions(connection, "night a")] == ["a-uid-2", "a-uid-1"]
        assert [session.uid for session in past_sessions.find_sessions(connection, "b-uid-")] == ["b-uid-1"]
        assert [session.uid for session in past_sessions.find_sessions(connection, None)] == ["c-uid-1"]
        with pytest.raises(BenchError, match="no session"):
            past_sessions.find_sessions(connection, "%")


def test_a_session_knows_what_it_ran_and_what_was_not_met(bench: Bench) -> None:
    database = bench.open()
    sessions_at(bench, database, {"a-uid-1": 1, "b-uid-1": 2})
    with database.reading() as connection:
        (session,) = past_sessions.find_sessions(connection, "a-uid-1")
        runs = queries.runs_of(connection, session.id)
        assert [run.entry.name for run in runs] == ["removal[dense]", "other"]
        (missed,) = queries.missed_requirements(connection, session.id)
        assert (missed.run_uid, missed.metric, missed.bound, missed.limit, missed.actual) == (
            *(runs[0].uid, "rate", "min_value", "2", "1"),
        )
        (invocation,) = past_sessions.invocations_of(connection, session)
        assert (invocation.host, invocation.environment) == ("h", {"cores": 2})
        assert past_sessions.subjects_of(connection, session) == [Subject("ray", "2")]


def test_an_empty_database_has_no_sessions_and_no_entries(bench: Bench) -> None:
    with bench.open().reading() as connection:
        assert past_sessions.sessions(connection, 5) == []
        assert queries.known_entries(connection) == []
        with pytest.raises(BenchError, match="no sessions are recorded"):
            past_sessions.find_sessions(connection, None)
