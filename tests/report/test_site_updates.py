"""A dashboard that is brought up to date: what is read, what is written, and that it is the same as a new one."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import warm
from sqlalchemy import Connection

from curator_bench.causes.judged_history import Query
from curator_bench.cli.dashboard import RecordedHistory
from curator_bench.report.site.build import Settings, write_site
from curator_bench.report.site.model import Beside, BlockOf, Group, GroupFacts, RunFacts
from curator_bench.report.site.work_queue import Asked, Progress, part_of
from curator_bench.store.database import database_url, open_for_reading
from curator_bench.store.past_sessions import sessions

pytestmark = pytest.mark.slow

BEGAN = datetime(2026, 1, 1, tzinfo=UTC)
MACHINES = ("epyc", "grace")


def night(number: int, *, only: str = "") -> list[dict[str, str | float]]:
    """The lines of one night: two entries and two machines; `quick` becomes slower in night 60."""
    numbers = random.Random(number)
    machine, start = MACHINES[number % 2], BEGAN + timedelta(days=number)
    slower = 1.3 if number >= 60 else 1.0
    return [
        {"name": name, "metric": metric, "value": numbers.lognormvariate(0, 0.01) * (slower if name == "quick" else 1)}
        | {"time": (start + timedelta(minutes=place)).isoformat(), "machine": machine, "session": f"night_{number}"}
        | {"commit": f"{number:07x}", "branch": "main", "path": "matrix.yaml"}
        for place, name in enumerate(("quick", "steady", "sometimes"))
        for metric in ("time_s", "peak_memory_bytes")
        if (only in ("", name)) and (name != "sometimes" or number < 30)
    ]


def add(folder: Path, lines: Sequence[Mapping[str, str | float]]) -> None:
    file = folder / "more.jsonl"
    file.write_text("".join(json.dumps(line) + "\n" for line in lines))
    warm.run("curator-bench", "import", file, "--db", "benchmark.db", cwd=folder).check_returncode()


def report(folder: Path, *words: str) -> str:
    done = warm.run("curator-bench", "report", *words, cwd=folder)
    assert done.returncode == 0, done.stderr
    return done.stdout


def contents(site: Path) -> dict[str, bytes]:
    return {path.relative_to(site).as_posix(): path.read_bytes() for path in site.rglob("*") if path.is_file()}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with a history of 150 nights, and the site made of it."""
    add(tmp_path, [line for number in range(150) for line in night(number)])
    report(tmp_path, "--out", "site")
    return tmp_path


def written_at(site: Path) -> dict[str, int]:
    files = (path for path in site.rglob("*") if path.is_file())
    return {path.relative_to(site).as_posix(): path.stat().st_mtime_ns for path in files}


def one_night_more(folder: Path) -> None:
    add(folder, night(150))


def a_night_that_was_measured_late(folder: Path) -> None:
    add(folder, [line | {"session": "late"} for line in night(40, only="quick")])


def another_metric_of_a_known_run(folder: Path) -> None:
    add(folder, [night(20, only="steady")[0] | {"metric": "throughput_per_s", "value": 5.0}])


def an_acceptance(folder: Path) -> None:
    words = ("accept", "quick", "time_s", "--why", "known", "--db", "benchmark.db")
    warm.run("curator-bench", *words, cwd=folder).check_returncode()


@pytest.mark.parametrize(
    "happens", [one_night_more, a_night_that_was_measured_late, another_metric_of_a_known_run, an_acceptance]
)
def test_a_site_that_is_brought_up_to_date_is_byte_for_byte_a_new_one(
    folder: Path, happens: Callable[[Path], None]
) -> None:
    happens(folder)
    report(folder, "--out", "site")
    report(folder, "--out", "fresh")
    assert contents(folder / "site") == contents(folder / "fresh")


def test_nothing_is_written_where_nothing_changed(folder: Path) -> None:
    assert "(nothing changed)" in report(folder, "--out", "site")


def test_a_night_more_writes_the_last_block_of_runs_only(folder: Path) -> None:
    before = written_at(folder / "site")
    one_night_more(folder)
    report(folder, "--out", "site")
    now = written_at(folder / "site")
    changed = {name for name in before.keys() & now.keys() if before[name] != now[name]}
    of_quick = {name.rpartition("/")[2] for name in changed if re.match("data/entries/quick-[0-9a-f]{8}/", name)}
    assert {re.sub("-[0-9a-f]{8}", "", name) for name in of_quick} == {"4.js", "epyc.js"}
    assert not [name for name in changed if "sometimes" in name]
    assert not [name for name in changed if re.match("(data/)?sessions/night-10-|assets/", name)]


class Watched(RecordedHistory):
    """A history that notes what is read of it."""

    def __init__(self, connection: Connection) -> None:
        super().__init__(connection, Query(), sessions(connection, 1000))
        self.read: list[tuple[str, int]] = []
        self.groups: set[tuple[str, str | None]] = set()

    def blocks(self, wanted: Sequence[BlockOf]) -> Sequence[Sequence[RunFacts]]:
        self.read += [(entry.name, number) for entry, number in wanted]
        return super().blocks(wanted)

    def judged(self, groups: Collection[Group], beside: Beside) -> tuple[Mapping[Group, GroupFacts], float]:
        self.groups |= {(entry.name, machine) for entry, machine in groups}
        return super().judged(groups, beside)


def test_of_an_entry_the_newest_blocks_and_the_machine_that_ran_are_read_and_nothing_of_the_others(
    folder: Path,
) -> None:
    one_night_more(folder)
    opened = open_for_reading(database_url(folder / "benchmark.db"))
    assert opened
    with opened, opened.reading() as connection:
        history = Watched(connection)
        write_site(folder / "site", history, Settings())
    assert history.read == [("quick", 3), ("quick", 4), ("steady", 3), ("steady", 4)]
    assert history.groups == {("quick", MACHINES[0]), ("steady", MACHINES[0])}


def test_a_file_that_was_deleted_is_written_again(folder: Path) -> None:
    known = contents(folder / "site")
    gone = [folder / "site" / name for name in known if name.endswith(("/0.js", "/entries.html", "/night-3.html"))]
    for path in [*gone, folder / "site" / "compare.html"]:
        path.unlink(missing_ok=True)
    report(folder, "--out", "site")
    assert contents(folder / "site") == known


def test_a_build_that_was_ended_halfway_is_followed_by_a_whole_one(folder: Path) -> None:
    known = contents(folder / "site")
    (folder / "site" / ".curator-bench-site").write_text("")
    (folder / "site" / "index.html").write_text("half")
    (folder / "site" / "data" / "index.js.unfinished").write_text("half")
    report(folder, "--out", "site")
    assert contents(folder / "site") == known


def test_other_settings_write_what_they_change(folder: Path) -> None:
    report(folder, "--out", "site", "--title", "Another title", "--sessions", "20")
    report(folder, "--out", "fresh", "--title", "Another title", "--sessions", "20")
    assert contents(folder / "site") == contents(folder / "fresh")
    assert len(list((folder / "site" / "sessions").iterdir())) == 20


def test_sessions_that_lose_their_page_are_not_linked_to(folder: Path) -> None:
    report(folder, "--out", "site", "--sessions", "149")
    one_night_more(folder)
    report(folder, "--out", "site", "--sessions", "149")
    report(folder, "--out", "fresh", "--sessions", "149")
    site, fresh = contents(folder / "site"), contents(folder / "fresh")
    del site[".curator-bench-site"], fresh[".curator-bench-site"]  # which remembers more of the past
    assert site == fresh


def served_site(folder: Path, name: str, progress: Progress, asked: Asked = lambda: ()) -> Path:
    opened = open_for_reading(database_url(str(folder / "benchmark.db")))
    assert opened
    with opened, opened.reading() as connection:
        history = RecordedHistory(connection, Query(), sessions(connection, 1000))
        write_site(folder / name, history, Settings(is_served=True), progress, asked)
    return folder / name


def test_while_it_is_served_the_overview_comes_first_and_then_the_pages_that_are_asked_for(folder: Path) -> None:
    last_pages = ["entries/steady-*.html", "data/sessions/night?3-*.js", "data/compared/*/*.js"]
    files = [min((folder / "site").glob(page)).relative_to(folder / "site").as_posix() for page in last_pages]
    seen: list[set[str]] = []

    def look(done: int, total: int) -> None:
        seen.append(set(contents(folder / "served")))

    def ask() -> Sequence[str]:
        return files[len(seen) - 1 : len(seen)]

    served_site(folder, "served", look, ask)
    lists = {"index.html", "entries.html", "sessions.html", "compare.html", "axes.html", "data/index.js"}
    assert lists <= seen[0]
    assert not [file for file in seen[0] if re.match("(entries|sessions|data/sessions|data/compared)/", file)]
    assert all(
        file in later and file not in earlier for file, earlier, later in zip(files, seen, seen[1:], strict=False)
    )
    assert len(seen) > len(files) + 10
    assert contents(folder / "served") == contents(served_site(folder, "other", lambda done, total: None))


def test_a_served_site_is_brought_up_to_date_like_any_other(folder: Path) -> None:
    served_site(folder, "served", lambda done, total: None)
    one_night_more(folder)
    served_site(folder, "served", lambda done, total: None)
    assert contents(folder / "served") == contents(served_site(folder, "fresh", lambda done, total: None))


@pytest.mark.parametrize(
    ("file", "part"),
    [
        ("entries/a.html", "entries/a"),
        ("data/entries/a.js", "entries/a"),
        ("data/entries/a/3.js", "entries/a"),
        ("data/sessions/a.js", "sessions/a"),
        ("data/compared/a/b.js", "compared/a/b"),
        ("index.html", ""),
        ("data/index.js", ""),
        ("entries", ""),
        ("data/", ""),
        ("", ""),
        ("../entries/a.html", ""),
    ],
)
def test_a_file_names_the_part_of_a_build_that_writes_it(file: str, part: str) -> None:
    assert part_of(file) == part
