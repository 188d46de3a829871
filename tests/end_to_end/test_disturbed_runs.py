"""Runs during which the machine did something else: measured again, shown, and no part of any judgement.

A sampler of the project says what the machine did, so that it does not matter what this one does.
"""

from __future__ import annotations

import json
import re
import uuid
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import warm

from curator_bench.importing.found_runs import FoundRun
from curator_bench.importing.importer import Importer
from curator_bench.matrix import LoadRequest, definition_hash, load
from curator_bench.provenance.environment import machine_id
from curator_bench.store.database import database_url, open_for_reading, open_for_writing
from curator_bench.store.records import RunEnd, RunStart, SessionRecord, StoredRun
from curator_bench.values import Place, Verdict

if TYPE_CHECKING:
    from end_to_end.conftest import Outcome, Project

SCRIPT = """
import json, pathlib, sys
results = pathlib.Path(sys.argv[sys.argv.index("--benchmark-results-path") + 1])
count = pathlib.Path(__file__).with_name("count")
runs = int(count.read_text()) if count.exists() else 0
count.write_text(str(runs + 1))
values = [float(word) for word in sys.argv[1:sys.argv.index("--benchmark-results-path")]]
(results / "params.json").write_text("{}")
metrics = {"is_success": True, "sort_time_s": values[min(runs, len(values) - 1)]}
(results / "metrics.json").write_text(json.dumps(metrics))
"""
CONFTEST = """
from dataclasses import replace

def pytest_bench_plan(item, plan):
    return replace(plan, samplers=("./machine.py:Machine",))
"""
SAMPLER = """
from pathlib import Path

class Machine:
    def __init__(self, run):
        count = Path(__file__).with_name("count")
        self.number = int(count.read_text()) if count.exists() else 0
    def start(self): pass
    def stop(self): pass
    def warnings(self): return ()
    def metrics(self):
        lost = [{lost}][min(self.number, len([{lost}]) - 1)]
        return {{
            "machine.seconds": 10.0, "machine.cpu_s": 10.0 - lost, "machine.cpu_wait_for_others_s": lost,
            "machine.others_cpu_s": lost, "machine.stolen_s": 0.0,
        }}
"""
LEVEL = [1.0, 1.01, 0.99, 1.005, 0.995, 1.0, 1.01, 0.99, 1.0, 1.005]
DISTURBED = "it waited 3.0 s for processors that others had, 30% of its processor time"


class Shared:
    """A project on a machine that does what it is told to have done during each run, and a history."""

    def __init__(self, project: Project) -> None:
        self.project = project
        project.write("sort.py", SCRIPT)
        project.write("conftest.py", CONFTEST)

    def entry(self, values: Sequence[float], lost: Sequence[float]) -> None:
        """The first run measures the first value and loses so many of ten seconds to others, and so on."""
        self.project.write("machine.py", SAMPLER.format(lost=", ".join(map(str, lost))))
        requirements = [{"metric": "sort_time_s", "max_regression": "10%"}]
        args = " ".join(map(str, values))
        self.project.matrix({"name": "sort", "script": "sort.py", "args": args, "requirements": requirements})

    def remember(self, values: Sequence[float], disturbed: str | None = None) -> None:
        (entry,) = load(
            LoadRequest(files=(self.project.folder / "matrix.yaml",), working_dir=self.project.folder)
        ).entries
        told: dict[str, Any] = {"machine_id": machine_id(), "definition_hash": definition_hash(entry)}
        first = datetime.now(UTC) - timedelta(days=len(values))
        found = []
        for night, value in enumerate(values):
            start = RunStart("sort", "matrix.yaml", first + timedelta(days=night), **told)
            end = RunEnd(Verdict.PASSED, start.start, metrics={"sort_time_s": value}, disturbed=disturbed)
            session = SessionRecord(f"night_{uuid.uuid4().hex[:6]}", "r", uuid.uuid4().hex)
            found.append(FoundRun(StoredRun(session, None, start, end), Place("", 0)))
        with open_for_writing(database_url(str(self.project.folder / "benchmark.db"))) as database:
            Importer(database).add(found)

    def run(self, *options: str) -> Outcome:
        return self.project.run("--benchmark", "--bench-disturbed", "apart", *options)

    def shown(self, *words: str, database: str = "benchmark.db") -> str:
        """What a command of `curator-bench` prints."""
        option = "--into" if words[0] == "merge" else "--db"
        done = warm.run("curator-bench", *words, option, database, cwd=self.project.folder)
        done.check_returncode()
        return str(done.stdout)

    def every_disturbance(self, name: str) -> list[str | None]:
        """What disturbed each run of a database, the oldest first."""
        database = open_for_reading(database_url(str(self.project.folder / name)))
        assert database is not None
        with database, database.reading() as connection:
            return [row[0] for row in connection.exec_driver_sql("select disturbed from test_run order by id")]

    def recorded(self) -> list[tuple[str, str | None]]:
        """The verdict of each run, and what disturbed it, the oldest first."""
        database = open_for_reading(database_url(str(self.project.folder / "benchmark.db")))
        assert database is not None
        with database, database.reading() as connection:
            rows = connection.exec_driver_sql(
                "select verdict, disturbed from test_run where nodeid is not null order by id"
            )
            return [(row[0], row[1]) for row in rows]


@pytest.fixture
def shared(project: Project) -> Shared:
    return Shared(project)


def test_a_disturbed_run_is_measured_again_and_said_everywhere(shared: Shared) -> None:
    shared.entry([1.5, 1.0], lost=[3.0, 0.0])
    shared.remember(LEVEL)
    outcome = shared.run()
    assert outcome.code == 0
    assert [(verdict, bool(text)) for verdict, text in shared.recorded()] == [("passed", True), ("passed", False)]
    assert (shared.recorded()[0][1] or "").startswith(DISTURBED)
    assert shared.recorded()[1][1] == ""
    found = shared.project.outcome_of("sort")
    assert found["disturbed"] == ""
    assert found["metrics"]["sort_time_s"] == 1.0
    (check,) = found["requirements"]
    assert check["met"] is True
    for words in (["history", "sort"], ["show"]):
        assert "disturbed, no history: it waited 3.0 s" in shared.shown(*words)


def test_a_run_that_stays_disturbed_decides_nothing_and_says_what_to_do(shared: Shared) -> None:
    shared.entry([1.5], lost=[3.0])
    shared.remember(LEVEL)
    outcome = shared.run("--bench-confirm", "1")
    assert outcome.code == 0
    assert len(shared.recorded()) == 2
    assert outcome.has("warning: sort: disturbed, so it is no part of history: it waited 3.0 s")
    assert outcome.has("sort_time_s max_regression is inconclusive: the machine did something else during the run")


def test_disturbed_runs_count_like_all_others_if_the_user_says_so(shared: Shared) -> None:
    shared.entry([1.5], lost=[3.0])
    shared.remember(LEVEL)
    outcome = shared.project.run("--benchmark", "--bench-disturbed", "count")
    assert outcome.code == 1
    assert {text for _, text in shared.recorded()} == {None}


def test_disturbed_runs_are_no_history_of_a_gate(shared: Shared) -> None:
    shared.entry([1.0], lost=[0.0])
    shared.remember(LEVEL * 2, disturbed="")
    shared.remember([0.5] * 3, disturbed="it waited")
    outcome = shared.run("--bench-confirm", "0")
    assert outcome.code == 0
    (check,) = shared.project.outcome_of("sort")["requirements"]
    assert check["says"] == "no change", "0.5 would be a better level before"
    assert "0.5" not in shared.shown("history", "sort").partition("sort_time_s")[2]


def test_a_history_of_disturbed_runs_alone_says_why_it_lists_no_metrics(shared: Shared) -> None:
    shared.entry([1.0], lost=[0.0])
    shared.remember([1.0, 1.0], disturbed="it waited")
    told = shared.shown("history", "sort")
    assert "were disturbed, so they are no history: measure again" in told
    assert "METRIC" not in told
    shared.remember([1.0], disturbed="")
    assert "no history: measure again" not in shared.shown("history", "sort")


def test_where_most_recent_runs_were_disturbed_a_gate_is_inconclusive(shared: Shared) -> None:
    shared.entry([1.3], lost=[0.0])
    shared.remember(LEVEL)
    shared.remember([1.0, 1.0, 1.0, 1.0], disturbed="it waited")
    outcome = shared.run("--bench-confirm", "0")
    assert outcome.code == 0
    assert outcome.has("is inconclusive: 4 of the last 5 runs were disturbed: measure on a quieter machine")


def test_where_all_runs_were_disturbed_every_command_says_so(shared: Shared) -> None:
    shared.entry([1.0], lost=[0.0])
    shared.remember(LEVEL, disturbed="it waited")
    assert "Left out: 10 runs.\n    10 runs of sort on " in shared.shown("regressions")
    assert "because they were disturbed" in shared.shown("regressions")
    for words in (["history", "sort"], ["history", "sort", "sort_time_s"]):
        shown = shared.shown(*words)
        assert "no run here is history, because all were disturbed" in shown
        assert "newest runs:" not in shown
    assert "10 runs of sort on " in shared.shown("report", "--format", "markdown")
    assert "left out: 10 runs of sort on " in shared.shown("report", "--out", "site")
    assert "10 runs of sort on " in (shared.project.folder / "site" / "index.html").read_text()
    names = re.findall(r"^night_\w+", shared.shown("sessions"), re.MULTILINE)
    compared = warm.run("curator-bench", "compare", *names[-2:], "--db", "benchmark.db", cwd=shared.project.folder)
    assert (compared.returncode, f"1 run of {names[-1]} was disturbed" in compared.stderr) == (2, True)


def test_a_disturbed_run_is_on_the_overview_when_the_site_is_brought_up_to_date(shared: Shared) -> None:
    shared.entry([1.0], lost=[0.0])
    shared.remember(LEVEL, disturbed="")
    shared.shown("report", "--out", "site")
    shared.remember([5.0], disturbed="it waited")
    shared.shown("report", "--out", "site")
    assert "1 run of sort on " in (shared.project.folder / "site" / "index.html").read_text()


def test_disturbed_runs_do_not_count_where_history_judges_the_newest(shared: Shared) -> None:
    shared.entry([1.0], lost=[0.0])
    shared.remember(LEVEL * 2, disturbed="")
    shared.remember([5.0] * 3, disturbed="it waited")
    assert "newest runs: no change" in shared.shown("history", "sort", "sort_time_s")


def test_a_session_keeps_what_the_doctor_says_at_a_glance(shared: Shared) -> None:
    shared.entry([1.0], lost=[0.0])
    shared.run()
    document = json.loads((shared.project.session_dir / "session.json").read_text())
    found = {one["name"]: one for one in document["invocations"][0]["machine"]}
    assert found["memory"]["state"] == "good"


def broken_links(site: Path) -> list[str]:
    """Links of pages to files that are not there."""
    links = [
        (page, link) for page in site.rglob("*.html") for link in re.findall(r'href="([^"#?:]+)', page.read_text())
    ]
    return [f"{page.relative_to(site)}: {link}" for page, link in links if not (page.parent / link).exists()]


def test_a_dashboard_has_no_dead_links_where_all_or_some_runs_of_an_entry_are_disturbed(shared: Shared) -> None:
    shared.entry([1.0], lost=[0.0])
    site = shared.project.folder / "site"
    for level, disturbed, runs in ((1.3, "it waited", 0), (1.0, "", 3)):
        shared.remember([level] * 3, disturbed=disturbed)
        said = shared.shown("report", "--out", str(site))
        assert f"{runs} runs" in said
        assert broken_links(site) == []
    pages = [page.read_text() for page in site.joinpath("sessions").glob("*.html")]
    assert sum("disturbed, no history: it waited" in page for page in pages) == 3
    assert sum("../entries/sort" in page for page in pages) == 3
    data = [file.read_text() for file in site.joinpath("data", "sessions").glob("*.js")]
    assert sum("sort_time_s" in text for text in data) == 3, "a disturbed run is compared with nothing"


def test_disturbances_stay_with_their_runs_through_export_import_merge_and_prune(shared: Shared) -> None:
    shared.entry([1.0], lost=[0.0])
    shared.remember([1.0, 1.01], disturbed="it waited 3.0 s")
    shared.remember([1.0, 1.01], disturbed="")
    shared.remember([1.0], disturbed=None)
    before = shared.every_disturbance("benchmark.db")
    assert before == ["it waited 3.0 s"] * 2 + [""] * 2 + [None]
    shared.shown("export", "--format", "jsonl", "--out", "runs.jsonl")
    shared.shown("import", "runs.jsonl", database="imported.db")
    assert shared.every_disturbance("imported.db") == before
    shared.shown("merge", "benchmark.db", database="merged.db")
    assert shared.every_disturbance("merged.db") == before
    shared.shown("prune", "--keep-days", "1.5", "--yes", database="merged.db")
    assert shared.every_disturbance("merged.db") == ["it waited 3.0 s", "", None]
