"""Values that another program, such as a script, wrote into a database: one message with their place, no traceback."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from datetime import timedelta
from typing import TYPE_CHECKING

import pytest
import warm

from curator_bench.errors import BenchError
from curator_bench.store.database import database_url, open_for_writing
from curator_bench.store.dead_runs import Here
from curator_bench.store.opening import to_read
from curator_bench.store.records import Background, DefinitionRecord
from curator_bench.values import Check, Repeat, Subject, Verdict

if TYPE_CHECKING:
    from pathlib import Path

    from store.conftest import Bench

COMMANDS = (
    *(("sessions",), ("sessions", "--json"), ("show",), ("show", "--json"), ("history",), ("regressions", "--all")),
    *(("history", "removal[dense]"), ("history", "removal[dense]", "--json"), ("compare", "nightly", "nightly")),
    *(
        ("export", "--format", "jsonl"),
        ("export", "--format", "csv"),
        ("report", "--session", "nightly", "--format", "markdown"),
    ),
    ("report", "--out", "site"),
)


@pytest.fixture
def recorded(sqlite_bench: Bench, tmp_path: Path) -> Path:
    """A database with a value in nearly every column."""
    definition = DefinitionRecord("d", "s", "c", {"args": ["--x"]}, {"script.py": "pass"})
    background = Background(definition, {"packages": {"ray": "2.60"}})
    subjects = (Subject("nemo", "1.0", "abc", dirty=False),)
    recorder = sqlite_bench.recorder(
        subjects=subjects, commit="abc", commit_depth=3, committed_at=sqlite_bench.moment, branches=("main",)
    )
    for number in range(3):
        start = sqlite_bench.start(
            start=sqlite_bench.moment + timedelta(hours=number),
            definition_hash="d",
            circumstances=background.circumstances_uid,
            machine_id="m",
        )
        uid = recorder.start_run(start, background)
        repeats = tuple(Repeat(index, 0, 1.0, {"speed": 2.0}) for index in (1, 2))
        checks = (Check("speed", "min_value", 3.0, 2.0, met=False),)
        end = sqlite_bench.end(
            Verdict.FAILED, metrics={"speed": 2.0}, params={"size": 1}, repeats=repeats, checks=checks
        )
        recorder.finish_run(uid, end)
    recorder.note_links({"": {"mlflow": "http://x"}, uid: {"mlflow": "http://x"}})
    sqlite_bench.close()
    return tmp_path


SHOW, HISTORY, EXPORT = ("show", "--json"), ("history", "removal[dense]", "--json"), ("export", "--format", "jsonl")


@pytest.mark.parametrize(
    ("command", "place", "value", "said"),
    [
        (SHOW, "test_run.start", "x'00ff'", "start of test_run (id 1) is binary, expected a time"),
        (
            SHOW,
            "test_run.end",
            "'9999-99-99 00:00:00.000000'",
            "end of test_run (id 1) is '9999-99-99 00:00:00.000000'",
        ),
        (("show",), "bench_session.sink_urls", "'[1]'", "sink_urls of bench_session (id 1) is '[1]', expected JSON"),
        (SHOW, "invocation.start", "5", "start of invocation (id 1) is a whole number, expected a time"),
        (("show",), "test_run.duration", "'abc'", "duration of test_run (id 1) is a text, expected a number"),
        (("show",), "test_run.attempt", "x'00ff'", "attempt of test_run (id 1) is binary, expected a whole number"),
        (HISTORY, "bench_session.branches", "5", "branches of bench_session (id 1) is '5', expected JSON"),
        (
            ("regressions", "--all"),
            "metric.value",
            "x'00ff'",
            "value of metric (run 1, name speed) is binary, expected a number",
        ),
        (EXPORT, "definition.content", "'[1]'", "content of definition (id 1) is '[1]', expected JSON"),
        (EXPORT, "test_run.verdict", "'splendid'", "verdict of test_run (id 1) is 'splendid', expected a verdict"),
        (EXPORT, "test_run.sink_urls", "'{\"a\": '", "sink_urls of test_run (id 1) is '{\"a\": ', expected JSON"),
        (EXPORT, "test_run.session", "77", "row 1 of test_run belongs to no row of bench_session"),
        (EXPORT, "invocation.environment", "x'00ff'", "environment of invocation (id 1) is binary, expected JSON"),
        (EXPORT, "fact.content", "'[1]'", "content of fact (id 1) is not what its uid says"),
        (EXPORT, "test_run.error", "CAST(x'ff41' AS TEXT)", "Could not decode to UTF-8 column 'error'"),
    ],
)
def test_a_value_of_the_wrong_kind_is_named_with_its_row(
    recorded: Path, command: tuple[str, ...], place: str, value: str, said: str
) -> None:
    _spoil(recorded, place, value)
    done = warm.run("curator-bench", *command, "--db", recorded / "benchmark.db", cwd=recorded, within_s=60)
    assert done.returncode in (1, 2)
    assert "Traceback" not in done.stderr
    assert f"{recorded / 'benchmark.db'}: {said}" in done.stderr


def test_no_command_ends_in_a_traceback(recorded: Path) -> None:
    _spoil(recorded, "test_run.start", "'abc'")
    for words in COMMANDS:
        done = warm.run("curator-bench", *words, "--db", recorded / "benchmark.db", cwd=recorded, within_s=60)
        assert "Traceback" not in done.stderr, (words, done.stderr)
        assert "start of test_run (id 1) is 'abc', expected a time" in done.stderr or done.returncode == 0, words


@pytest.mark.parametrize("value", ["'abc'", "x'00ff'", "CAST(x'ff41' AS TEXT)"])
def test_no_such_value_is_merged_into_another_database(recorded: Path, value: str) -> None:
    _spoil(recorded, "test_run.duration", value)
    done = warm.run("curator-bench", "merge", "benchmark.db", "--into", "other.db", cwd=recorded, within_s=60)
    assert done.returncode == 1
    assert f"{recorded / 'benchmark.db'}: duration of test_run (id 1) is " in done.stderr
    with closing(sqlite3.connect(recorded / "other.db")) as other:
        assert other.execute("SELECT count(*) FROM test_run").fetchall() == [(0,)]


def test_a_run_under_way_that_cannot_be_read_is_named_at_the_start(recorded: Path) -> None:
    _spoil(recorded, "test_run.heartbeat_at", "'abc'")
    _spoil(recorded, "test_run.verdict", "'running'")
    here = Here("here", "boot", lambda pid: None)
    with pytest.raises(BenchError, match=r"heartbeat_at of test_run \(id 1\) is 'abc', expected a time"):
        open_for_writing(database_url(recorded / "benchmark.db"), here)


def test_an_error_of_ours_is_not_blamed_on_a_database_that_is_whole(recorded: Path) -> None:
    with pytest.raises(ZeroDivisionError), to_read(str(recorded / "benchmark.db")):
        1 / 0  # noqa: B018


def _spoil(folder: Path, place: str, value: str) -> None:
    table, column = place.split(".")
    with closing(sqlite3.connect(folder / "benchmark.db")) as database, database:
        database.execute(f'UPDATE {table} SET "{column}" = {value}')
