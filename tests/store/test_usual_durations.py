"""How long runs usually take is told from the runs that passed."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

from curator_bench.store.database import database_url, open_for_writing
from curator_bench.store.recorder import Recorder
from curator_bench.store.records import InvocationRecord, RunEnd, RunStart, SessionRecord
from curator_bench.store.usual_durations import usual_durations
from curator_bench.values import Verdict

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


def test_it_is_the_median_of_the_last_few_that_passed_of_each_definition(tmp_path: Path) -> None:
    with open_for_writing(database_url(str(tmp_path / "a.db"))) as database:
        recorder = Recorder(database, SessionRecord("s", str(tmp_path)), InvocationRecord("i", NOON))
        for number, seconds in enumerate([900.0, 900.0, 10.0, 11.0, 12.0, 13.0, 14.0]):
            start = NOON + timedelta(hours=number)
            uid = recorder.start_run(RunStart("x[1]", "m.yaml", start, definition_hash="new" if number else "old"))
            recorder.finish_run(uid, RunEnd(Verdict.PASSED, start, duration=seconds))
        uid = recorder.start_run(RunStart("x[1]", "m.yaml", NOON + timedelta(days=1), definition_hash="new"))
        recorder.finish_run(uid, RunEnd(Verdict.TIMEOUT, NOON, duration=5000.0))
    assert usual_durations(str(tmp_path / "a.db")) == {"m.yaml::x[1]": {"new": 12.0, "old": 900.0}}


def test_without_a_database_nothing_is_known_and_none_is_made(tmp_path: Path) -> None:
    assert usual_durations(str(tmp_path / "b.db")) == {}
    assert not tmp_path.joinpath("b.db").exists()
