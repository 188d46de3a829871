"""What the dashboard, `history` and `show` say where commits were measured in another order than they were made."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import warm
from real_browser import page_of, report

from curator_bench.store.database import database_url, open_for_writing
from curator_bench.store.recorder import Recorder
from curator_bench.store.records import InvocationRecord, RunEnd, RunStart, SessionRecord
from curator_bench.values import Verdict

BEGAN = datetime(2026, 1, 1, 2, 30, tzinfo=UTC)
MATRIX, ENTRY = "matrix.yaml", "removal"


def commit_of(depth: int) -> str:
    return f"{depth:040x}"


def measure(
    folder: Path, day: int, depth: int, verdicts: Sequence[Verdict], session: str = "", time_s: float = 0.0
) -> None:
    """Record a run of each verdict on a day, at the commit of a depth. Days of one session are its invocations."""
    start = BEGAN + timedelta(days=day)
    facts = {"session_commit": {"commit": commit_of(depth), "branch": "main", "dirty": False}}
    record = SessionRecord(
        session or f"day_{day}",
        str(folder / "results"),
        commit=commit_of(depth),
        branch="main",
        commit_depth=depth,
        committed_at=BEGAN + timedelta(days=depth),
    )
    with open_for_writing(database_url(folder / "benchmark.db")) as database:
        recorder = Recorder(database, record, InvocationRecord(f"{day:032x}", start, host="h", environment=facts))
        for place, verdict in enumerate(verdicts):
            began = start + timedelta(minutes=place)
            run = RunStart(ENTRY, MATRIX, began, definition_hash="d", machine_id="m", attempt=place + 1)
            recorder.start_run(run)
            metrics = {"time_s": time_s or 4.0 + day / 100} if verdict is Verdict.PASSED else {}
            recorder.finish_run(run.uid, RunEnd(verdict, began, duration=4.0, metrics=metrics))
        recorder.finish_invocation(0)


def page(folder: Path, kind: str, name: str) -> str:
    report(folder, "--out", "site")
    return (folder / "site" / page_of(folder / "site", kind, name)).read_text()


def overview(folder: Path) -> str:
    report(folder, "--out", "site")
    return (folder / "site" / "index.html").read_text()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Five commits, each measured on its day. Then the second one is measured again, and crashes."""
    for day in range(1, 6):
        measure(tmp_path, day, day, [Verdict.PASSED])
    report(tmp_path, "--out", "site")
    measure(tmp_path, 6, 2, [Verdict.CRASHED])
    return tmp_path


def test_an_old_commit_that_is_measured_later_is_not_the_state_of_an_entry(folder: Path) -> None:
    said = overview(folder)
    assert 'aria-label="What is broken"' not in said
    assert "The session that began last" in said
    assert "day_6" in said
    assert "Broken</strong>" not in page(folder, "entries", ENTRY)
    done = warm.run("curator-bench", "history", "--db", "benchmark.db", cwd=folder)
    (row,) = [line for line in done.stdout.splitlines() if line.startswith(ENTRY)]
    assert "2026-01-06 02:30" in row
    assert "passed" in row
    found = json.loads(warm.run("curator-bench", "history", "--json", "--db", "benchmark.db", cwd=folder).stdout)
    assert found["entries"][0]["latest"].startswith("2026-01-06")


def test_a_chart_has_the_run_where_its_commit_stands_and_says_when_it_began(folder: Path) -> None:
    report(folder, "--out", "site")
    (file,) = (folder / "site" / "data" / "entries").glob("removal-*/0.js")
    block = json.loads(file.read_text().partition(",")[2].rstrip().removesuffix(");"))
    assert [block["sessions"][number][1] for number in block["session"]] == [
        *("day_1", "day_2", "day_6", "day_3", "day_4", "day_5")
    ]
    assert block["time"] == sorted(block["time"])
    assert block["began"] == {"2": (BEGAN + timedelta(days=6)).timestamp()}


def test_a_site_with_a_late_run_is_byte_for_byte_a_new_one(folder: Path) -> None:
    for name in ("site", "fresh"):
        report(folder, "--out", name)
    both = [
        {path.relative_to(folder / name): path.read_bytes() for path in (folder / name).rglob("*") if path.is_file()}
        for name in ("site", "fresh")
    ]
    assert both[0] == both[1]


def test_broken_counts_sessions_however_often_an_entry_was_tried(tmp_path: Path) -> None:
    measure(tmp_path, 1, 1, [Verdict.PASSED])
    for day in (2, 3, 4):
        measure(tmp_path, day, day, [Verdict.CRASHED, Verdict.CRASHED])
    assert "<strong>Broken</strong> for 3 sessions, since day_2" in page(tmp_path, "entries", ENTRY)


def test_runs_of_a_session_that_was_joined_at_another_commit_have_their_own(tmp_path: Path) -> None:
    for day in (1, 2):
        measure(tmp_path, day, day, [Verdict.PASSED], "night")
    said = page(tmp_path, "sessions", "night")
    assert said.count(f'title="{commit_of(2)}"') == 1
    assert said.count(f'title="{commit_of(1)}"') == 2  # and that of the session
    for command in (["show", "night"], ["history", ENTRY]):
        lines = warm.run("curator-bench", *command, "--db", "benchmark.db", cwd=tmp_path).stdout.splitlines()
        rows = [line for line in lines if "passed" in line and "verdicts" not in line]
        assert [commit_of(2)[:8] in row or commit_of(1)[:8] in row for row in rows] == [True, True], lines


def test_a_finding_names_the_commits_of_its_runs_in_a_session_that_was_joined_at_another_commit(tmp_path: Path) -> None:
    for day in range(1, 31):
        slower = 1.5 if day > 15 else 1.0
        session = "night" if day in (15, 16) else ""
        measure(tmp_path, day, day, [Verdict.PASSED], session, slower * (4.0 + day % 3 / 100))
    words = ("regressions", "--json", "--db", "benchmark.db")
    (change,) = json.loads(warm.run("curator-bench", *words, cwd=tmp_path).stdout)
    assert [change[end]["commit"] for end in ("last_before", "since")] == [commit_of(15), commit_of(16)]
    assert [change["commits"][end] for end in ("before", "after")] == [commit_of(15), commit_of(16)]


def test_numbers_of_missed_requirements_are_readable(tmp_path: Path) -> None:
    (tmp_path / "work.py").write_text("""
import json, pathlib, sys
results = pathlib.Path(sys.argv[-1])
results.joinpath("params.json").write_text("{}")
results.joinpath("metrics.json").write_text(json.dumps({"sort_s": 0.15385902500202064, "numbers": 50000}))
""")
    (tmp_path / "matrix.yaml").write_text("""
entries:
  - name: sort
    script: work.py
    ray: false
    requirements: [{metric: sort_s, max_value: 0.1}, {metric: numbers, max_value: 20000}]
""")
    warm.run("pytest", "matrix.yaml", "--benchmark", "-q", cwd=tmp_path)
    done = warm.run("curator-bench", "show", cwd=tmp_path)
    assert "sort_s is 0.154 s, max_value 0.1 s; numbers is 50,000, max_value 20,000" in done.stdout
    assert "sort_s is 0.154 s, max_value 0.1 s" in page(tmp_path, "entries", "sort")
