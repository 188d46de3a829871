"""Databases are put together without losing or doubling anything, in whatever order."""

from __future__ import annotations

import itertools
import shutil
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import sqlalchemy as sa
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from curator_bench.errors import BenchError
from curator_bench.store import merge as merging
from curator_bench.store import tables
from curator_bench.store.database import Database, database_url, open_for_reading, open_for_writing
from curator_bench.store.merge import MERGED, Merged, merge
from curator_bench.store.migrations import Migrations
from curator_bench.store.schema import Base
from curator_bench.store.tables import INVOCATIONS, METRICS, PARAMS, REQUIREMENTS, RUNS, SAMPLES, SESSIONS, SUBJECTS
from curator_bench.values import Check, Repeat, Subject, Verdict

if TYPE_CHECKING:
    from store.conftest import Bench

Content = Callable[[Database], dict[str, Any]]
MOMENT = datetime(2026, 1, 23, 14, 30, tzinfo=UTC)


def fill(bench: Bench, database: Database, names: Sequence[str], *, invocation: str = "an-invocation") -> list[str]:
    """Runs with something of everything, and one that is under way; their uids."""
    subjects = (Subject("ray", "2.60.0"), Subject("nemo_curator", "1.0", "abc", dirty=True))
    recorder = bench.recorder(database, invocation=invocation, subjects=subjects, reason="grüße", dirty=False)
    repeats = tuple(Repeat(index, 0, 1.0, {"rate": index / 3}) for index in (1, 2))
    metrics = {"rate": 0.1, "ok": True, "nan": float("nan"), "nothing": None, "text": "tab\there, \\backslash\n"}
    checks = (
        Check("rate", "min_value", 0.2, 0.1, met=False),
        Check("ok", "exact_value", True, None, met=False, missing=True),
        Check("ok", "exact_value", True, True, met=True),
    )
    uids = []
    for name in names:
        uid = recorder.start_run(bench.start(name, machine_id="m1", pid=4711, process_start=1.5))
        end = bench.end(metrics=metrics, params={"a": "1", "b": {"c": [1]}}, repeats=repeats, checks=checks)
        recorder.finish_run(uid, end)
        uids.append(uid)
    recorder.start_run(bench.start("under way", host="elsewhere"))
    recorder.finish_invocation(1)
    assert recorder.problems() == ()
    return uids


def test_everything_arrives_whatever_the_kinds_of_databases(
    two_benches: tuple[Bench, Bench], content: Content, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(merging, "AT_ONCE", 2)
    here, there = two_benches
    source, target = here.open(), there.open()
    fill(here, source, ["a", "b[1]", "c", "d", "e"])
    assert merge(source, target) == Merged(added=6)
    assert content(target) == content(source)
    assert merge(source, target) == Merged(known=6)
    assert content(target) == content(source)


def test_what_the_target_holds_stays(two_benches: tuple[Bench, Bench], content: Content) -> None:
    here, there = two_benches
    source, target = here.open(), there.open()
    fill(here, source, ["a", "b"], invocation="one")
    fill(there, target, ["c"], invocation="two")
    before, coming = content(target), content(source)
    merge(source, target)
    assert content(target) == {table: sorted(before[table] + coming[table]) for table in before}


def test_a_session_known_to_both_is_one_session(two_benches: tuple[Bench, Bench]) -> None:
    here, there = two_benches
    there.results = here.results
    source, target = here.open(), there.open()
    fill(here, source, ["a"], invocation="one")
    fill(there, target, ["b"], invocation="two")
    merge(source, target)
    assert len(there.rows("bench_session", "uid")) == 1
    assert there.rows("invocation", "uid") == [("one",), ("two",)]
    assert there.rows("subject", "package") == [("nemo_curator",), ("ray",)]


def test_a_run_that_has_ended_counts_more_than_one_under_way(
    two_benches: tuple[Bench, Bench], content: Content
) -> None:
    here, there = two_benches
    source, target = here.open(), there.open()
    recorder = here.recorder(source)
    uid = recorder.start_run(here.start("removal"))
    assert merge(source, target) == Merged(added=1)
    with target.writing() as connection:  # as it would be when next opened
        connection.execute(sa.update(RUNS).values(verdict="interrupted", end=here.moment, error="gone"))
    recorder.finish_run(uid, here.end(Verdict.FAILED, metrics={"rate": 1.0}, params={"a": 1}))
    earlier = content(target)
    assert merge(target, source) == Merged(known=1)
    assert merge(source, target) == Merged(renewed=1)
    assert content(target) == content(source) != earlier


def test_metrics_that_one_lacks_are_added_to_a_run_both_know(
    two_benches: tuple[Bench, Bench], content: Content
) -> None:
    """As when `curator-bench import` was told more of it."""
    here, there = two_benches
    source, target = here.open(), there.open()
    recorder = here.recorder(source)
    recorder.finish_run(recorder.start_run(here.start()), here.end(metrics={"a": 1.0}))
    merge(source, target)
    for database, metric in ((source, "b"), (target, "c")):
        with database.writing() as connection:
            run = connection.scalar(sa.select(RUNS.c.id))
            connection.execute(sa.insert(METRICS), {"run": run, "name": metric, "value": 2.0})
    assert merge(source, target) == Merged(renewed=1)
    assert merge(source, target) == Merged(known=1)
    assert there.rows("metric", "name") == [("a",), ("b",), ("c",)]
    assert merge(target, source) == Merged(renewed=1)
    assert content(target) == content(source)


def test_every_table_is_merged() -> None:
    """Whoever adds a table says here how it is put together."""
    assert set(MERGED) == set(Base.metadata.tables.values())


def test_the_key_of_what_belongs_to_a_run_comes_first() -> None:
    for table in tables.PARTS:
        keys = list(table.primary_key)
        assert list(table.columns)[: len(keys)] == keys
        assert keys[0] is table.c.run


def test_an_older_input_is_brought_up_to_date_in_a_copy(sqlite_bench: Bench, content: Content, tmp_path: Path) -> None:
    with open_for_writing(sqlite_bench.url) as database:
        fill(sqlite_bench, database, ["a"])
        expected = content(database)
    path = Path(str(sqlite_bench.url.database))
    with sa.create_engine(f"sqlite:///{path}").begin() as connection:
        # what this revision added is not there, and it has another name
        connection.exec_driver_sql("UPDATE alembic_version SET version_num = 'aaaa00000000'")
    before = path.read_bytes()
    folder = Path(shutil.copytree(Migrations().folder, tmp_path / "alembic"))
    script = 'revision = "{}"\ndown_revision = {!r}\n\n\ndef upgrade() -> None:\n    pass\n'
    for script_file in folder.glob("versions/*.py"):
        script_file.unlink()
    folder.joinpath("versions", "one.py").write_text(script.format("aaaa00000000", None))
    folder.joinpath("versions", "two.py").write_text(script.format(Migrations().head, "aaaa00000000"))
    source = open_for_reading(sqlite_bench.url, Migrations(folder))
    assert source is not None
    with source, open_for_writing(database_url(tmp_path / "into.db")) as target:
        assert merge(source, target) == Merged(added=2)
        assert content(target) == expected
    assert path.read_bytes() == before


def test_a_database_merged_into_itself_is_what_it_was(bench: Bench, content: Content) -> None:
    database = bench.open()
    fill(bench, database, ["a", "b"])
    before = content(database)
    assert merge(database, database) == Merged(known=3)
    assert content(database) == before


def test_what_cannot_be_written_is_said_in_one_line(sqlite_bench: Bench, tmp_path: Path) -> None:
    source = sqlite_bench.open()
    fill(sqlite_bench, source, ["a"])
    with open_for_writing(database_url(tmp_path / "into.db")) as target:

        @sa.event.listens_for(target.engine, "checkout")
        def refuse(connection: Any, record: object, proxy: object) -> None:
            connection.execute("PRAGMA query_only = ON")

        with pytest.raises(BenchError, match=r"into\.db: attempt to write a readonly database$"):
            merge(source, target)


def test_two_that_merge_the_same_at_the_same_moment_do_not_double_anything(
    two_benches: tuple[Bench, Bench], content: Content, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(merging, "AT_ONCE", 5)
    here, there = two_benches
    source = here.open()
    fill(here, source, [f"run_{number}" for number in range(40)])
    targets = [there.open() for _ in range(4)]
    problems: list[BaseException] = []

    def work(target: Database) -> None:
        try:
            merge(source, target)
        except BaseException as error:
            problems.append(error)

    threads = [threading.Thread(target=work, args=[target]) for target in targets]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert problems == []
    assert content(targets[0]) == content(source)


# What two databases may know of the same few runs. Sessions and invocations are always those of the run.
times = st.none() | st.sampled_from([MOMENT + timedelta(seconds=number) for number in range(3)])
texts = st.none() | st.sampled_from(["x", "y"])
numbers = st.none() | st.sampled_from([-2.0, -1.0, 1.0])
names = st.sampled_from(["a", "b", "c"])
accounts = st.fixed_dictionaries(
    {
        "verdict": st.sampled_from(["running", "interrupted", "passed", "failed"]),
        "end": times,
        "heartbeat_at": times,
        "duration": numbers,
        "teardown_outcome": texts,
        "metrics": st.dictionaries(names, st.tuples(numbers, texts)),
        "samples": st.dictionaries(st.tuples(st.integers(1, 2), names), numbers),
        "params": st.dictionaries(names, texts),
        "checks": st.dictionaries(st.integers(0, 2), st.none() | st.booleans()),
    }
)
shared = st.fixed_dictionaries({"reason": texts, "commit": texts, "dirty": st.none() | st.booleans()})
invocations = st.fixed_dictionaries({"end": times, "exit_status": st.none() | st.integers(0, 1), "environment": texts})
known = st.fixed_dictionaries(
    {
        "sessions": st.fixed_dictionaries({"s0": shared, "s1": shared}),
        "invocations": st.fixed_dictionaries({"i0": invocations, "i1": invocations}),
        "subjects": st.lists(st.tuples(st.sampled_from(["s0", "s1"]), texts), max_size=3, unique=True),
        "runs": st.dictionaries(st.sampled_from(["r0", "r1", "r2", "r3"]), accounts, max_size=4),
    }
)


def write(database: Database, told: dict[str, Any]) -> None:
    with database.writing() as connection:
        sessions = {
            uid: add(connection, SESSIONS, uid=uid, name=uid, results_directory="/results", **values)
            for uid, values in told["sessions"].items()
        }
        under = {
            uid: add(connection, INVOCATIONS, uid=uid, session=sessions[f"s{uid[1]}"], start=MOMENT, **values)
            for uid, values in told["invocations"].items()
        }
        for session, version in told["subjects"]:
            add(connection, SUBJECTS, session=sessions[session], package="ray", version=version)
        for uid, account in told["runs"].items():
            side = int(uid[1]) % 2
            write_run(connection, uid, account, session=sessions[f"s{side}"], invocation=under[f"i{side}"])


def write_run(connection: sa.Connection, uid: str, account: dict[str, Any], **places: int) -> None:
    columns = ("verdict", "end", "heartbeat_at", "duration", "teardown_outcome")
    values = {name: account[name] for name in columns}
    run = add(
        connection,
        RUNS,
        uid=uid,
        name=uid,
        originalname=uid,
        path="m.yaml",
        start=MOMENT,
        attempt=1,
        **places,
        **values,
    )
    for name, (value, text) in account["metrics"].items():
        add(connection, METRICS, run=run, name=name, value=value, text=text)
    for (repeat, name), value in account["samples"].items():
        add(connection, SAMPLES, run=run, repeat=repeat, metric=name, value=value)
    for name, value in account["params"].items():
        add(connection, PARAMS, run=run, name=name, value=value)
    for position, met in account["checks"].items():
        add(connection, REQUIREMENTS, run=run, position=position, metric="a", bound="min_value", met=met)


def add(connection: sa.Connection, table: sa.Table, **values: Any) -> int:
    made = connection.execute(sa.insert(table), values)
    return int(made.inserted_primary_key[0]) if made.inserted_primary_key else 0


@pytest.fixture(scope="module")
def empty(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A database at head: to copy it is quicker than to make it."""
    path = tmp_path_factory.mktemp("empty") / "empty.db"
    open_for_writing(database_url(path)).close()
    return path


@pytest.fixture(scope="module")
def fresh(empty: Path) -> Iterator[Callable[[], Database]]:
    counter = itertools.count()
    with ExitStack() as opened:

        def make() -> Database:
            path = shutil.copy(empty, empty.with_name(f"{next(counter)}.db"))
            return opened.enter_context(open_for_writing(database_url(path)))

        yield make


several = settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


@several
@given(st.lists(known, min_size=1, max_size=3))
def test_the_order_does_not_matter_and_twice_is_once(
    fresh: Callable[[], Database], content: Content, told: list[dict[str, Any]]
) -> None:
    sources = [fresh() for _ in told]
    for source, one in zip(sources, told, strict=True):
        write(source, one)
    before = [content(source) for source in sources]
    outcomes = []
    for order in itertools.permutations(sources):
        target = fresh()
        for source in order:
            merge(source, target)
        outcomes.append(content(target))
        for source in order:
            assert merge(source, target) == Merged(known=len(content(source)["test_run"]))
        assert content(target) == outcomes[-1]
    assert all(outcome == outcomes[0] for outcome in outcomes)
    assert [content(source) for source in sources] == before
    uids = {uid for one in told for uid in one["runs"]}
    assert len(outcomes[0]["test_run"]) == len(uids)


@several
@given(known, known, known)
def test_in_how_many_steps_does_not_matter(
    fresh: Callable[[], Database], content: Content, a: dict[str, Any], b: dict[str, Any], c: dict[str, Any]
) -> None:
    first, second, third = sources = [fresh(), fresh(), fresh()]
    for source, one in zip(sources, (a, b, c), strict=True):
        write(source, one)
    at_once = fresh()
    for source in sources:
        merge(source, at_once)
    merge(third, second)
    merge(second, first)
    assert content(first) == content(at_once)
