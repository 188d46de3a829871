"""One history for one benchmark: a comment, a variable or changed code do not end it; changed arguments do."""

from __future__ import annotations

import json
import uuid
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import sqlalchemy as sa
import warm

from curator_bench.matrix import LoadRequest, definition_hash, load
from curator_bench.provenance.environment import machine_id
from curator_bench.store.database import database_url, migrating
from curator_bench.store.migrations import Migrations

if TYPE_CHECKING:
    from end_to_end.conftest import Outcome, Project

pytestmark = pytest.mark.slow

TODAY = "5f0d7c1e9a42"
"""The revision of databases whose runs have a definition hash only."""
WORK = """
import argparse, json, pathlib
parser = argparse.ArgumentParser()
parser.add_argument("--benchmark-results-path", type=pathlib.Path)
parser.add_argument("--size")
options = parser.parse_args()
value = float(pathlib.Path(__file__).with_name("value").read_text())
options.benchmark_results_path.joinpath("params.json").write_text(json.dumps({"scale": 100}))
options.benchmark_results_path.joinpath("metrics.json").write_text(json.dumps({"sort_time_s": value}))
"""
FAST, SLOW = [1 + 0.01 * (night % 4) for night in range(20)], [2.0, 2.01, 1.99]


class Suite:
    """A project with one gated entry, and a database with a regression that is open."""

    def __init__(self, project: Project) -> None:
        self.project = project
        project.write("work.py", WORK)
        self.entry("--size 1")
        self.measures(2.0)
        self._sessions = 0

    def entry(self, args: str, **keys: Any) -> None:
        gate = [{"metric": "sort_time_s", "max_regression": "10%"}]
        self.project.matrix({"name": "sort", "script": "work.py", "args": args, "requirements": gate, **keys})

    def measures(self, value: float) -> None:
        self.project.write("value", str(value))

    def run(self, *options: str, **variables: str) -> Outcome:
        self._sessions += 1
        session = ("--bench-session", f"run_{self._sessions}")
        return self.project.run("--benchmark", "--bench-confirm", "0", *session, *options, **variables)

    def regressions(self, *options: str) -> tuple[int, str]:
        done = warm.run("curator-bench", "regressions", *options, cwd=self.project.folder)
        return done.returncode, done.stdout

    def is_open(self) -> bool:
        code, output = self.regressions("--json")
        states = [(one["kind"], one["state"]) for one in json.loads(output) if one["metric"] == "sort_time_s"]
        return code == 1 and states == [("regression", "open")]

    @property
    def database(self) -> Path:
        return self.project.folder / "benchmark.db"

    def definition(self) -> str:
        file = self.project.folder / "matrix.yaml"
        (entry,) = load(LoadRequest(files=(file,), working_dir=self.project.folder)).entries
        return definition_hash(entry)

    def remember(self, values: Sequence[float]) -> None:
        """As a release before this one recorded it, night by night."""
        tables = sa.MetaData()
        first = datetime.now(UTC) - timedelta(days=30)
        with migrating(database_url(str(self.database))) as connection:
            Migrations().upgrade(connection, TODAY)
            tables.reflect(connection)
            for night, value in enumerate(values):
                start = first + timedelta(days=night)
                session = {"id": night + 1, "uid": uuid.uuid4().hex, "name": f"night_{night}", "results_directory": "r"}
                run = {
                    "id": night + 1,
                    "uid": uuid.uuid4().hex,
                    "session": night + 1,
                    "name": "sort",
                    "originalname": "sort",
                    "path": "matrix.yaml",
                    "definition_hash": self.definition(),
                    "machine_id": machine_id(),
                    "attempt": 1,
                    "verdict": "passed",
                    "start": start,
                    "end": start,
                }
                metric = {"run": night + 1, "name": "sort_time_s", "value": value}
                for table, row in (("bench_session", session), ("test_run", run), ("metric", metric)):
                    connection.execute(sa.insert(tables.tables[table]), row)


@pytest.fixture
def suite(project: Project) -> Suite:
    suite = Suite(project)
    suite.remember([*FAST, *SLOW])
    return suite


def test_a_database_of_an_older_release_gives_the_same_answers_when_it_is_upgraded(suite: Suite) -> None:
    before = json.loads(suite.regressions("--json")[1])
    ((kind, change, session),) = [(one["kind"], one["change"], one["since"]["session"]) for one in before]
    assert (kind, session) == ("regression", "night_20")
    assert change == pytest.approx(0.97, abs=0.03)
    assert suite.run().code == 1  # upgrades it, and its run joins the series of those before
    code, output = suite.regressions()
    assert code == 1
    assert "Left out" not in output
    assert [(one["kind"], one["since"]["session"]) for one in json.loads(suite.regressions("--json")[1])] == [
        ("regression", "night_20")
    ]


def test_a_comment_closes_no_regression(suite: Suite) -> None:
    suite.run()
    suite.project.write("work.py", WORK + "# a comment\n")
    assert suite.run().code == 1
    assert suite.is_open()
    assert "Left out" not in suite.regressions()[1]
    assert "definition changed" not in history(suite)


def test_an_added_variable_closes_no_regression(suite: Suite) -> None:
    suite.run()
    suite.entry("--size 1", env={"MORE": "1"})
    assert suite.run().code == 1
    assert suite.is_open()
    assert history(suite).count("definition changed") == 1


def test_changed_code_goes_on_with_a_mark(suite: Suite) -> None:
    suite.run()
    suite.project.write("work.py", WORK.replace('"scale": 100', '"scale": 1000'))
    assert suite.run().code == 1
    assert suite.is_open()
    assert history(suite).count("definition changed") == 1


def test_changed_arguments_begin_a_new_series_and_what_was_open_stays_open(suite: Suite) -> None:
    suite.run()
    suite.entry("--size 2")
    outcome = suite.run()
    assert outcome.code == 0
    assert outcome.has("24 runs, because the arguments were --size 1, not --size 2")
    code, output = suite.regressions()
    assert code == 1
    assert suite.is_open()
    assert "Left out: 24 runs" in output
    assert "the arguments were --size 1, not --size 2" in output
    compared = warm.run("curator-bench", "compare", "run_1", "run_2", cwd=suite.project.folder).stdout
    assert "the arguments were --size 1, not --size 2" in compared
    report = warm.run("curator-bench", "report", "--format", "json", cwd=suite.project.folder).stdout
    (left_out,) = json.loads(report)["left_out"]
    assert left_out.endswith("the arguments were --size 1, not --size 2")
    assert warm.run("curator-bench", "report", "--out", "site", cwd=suite.project.folder).returncode == 0
    overview = suite.project.folder.joinpath("site", "index.html").read_text()
    assert "the arguments were --size 1, not --size 2" in overview
    assert '<svg class="trend regression"' in overview  # of the series that has ended
    data = suite.project.folder.joinpath("site", "data")
    assert any('"package pytest"' in file.read_text() for file in data.rglob("*.js"))  # for two sessions side by side


def test_an_accepted_regression_of_an_ended_series_is_closed(suite: Suite) -> None:
    suite.run()
    suite.entry("--size 2")
    suite.run()
    done = warm.run("curator-bench", "accept", "sort", "sort_time_s", "--why", "known", cwd=suite.project.folder)
    assert done.returncode == 0, done.stderr
    assert suite.regressions()[0] == 0


def history(suite: Suite) -> str:
    done = warm.run("curator-bench", "history", "sort", cwd=suite.project.folder)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_what_changed_is_told_where_it_got_slower(project: Project) -> None:
    suite = Suite(project)
    suite.remember(FAST)
    suite.measures(1.0)
    state = {"HOME": str(project.folder)}
    assert suite.run(**state, FLAVOUR="vanilla").code == 0
    suite.measures(3.0)
    suite.entry("--size 1", env={"MORE": "1"})
    suite.project.write("work.py", WORK.replace('"scale": 100', '"scale": 1000'))
    outcome = suite.run("--bench-confirm", "3", **state, FLAVOUR="strawberry")
    assert outcome.code == 1
    told = (
        "What changed between the last run before and the first after:",
        "definition: env.MORE added (1)",
        '-options.benchmark_results_path.joinpath("params.json").write_text(json.dumps({"scale": 100}))',
        '+options.benchmark_results_path.joinpath("params.json").write_text(json.dumps({"scale": 1000}))',
        "parameters: scale 100 → 1000",
        "environment: FLAVOUR changed",
    )
    assert outcome.has(*told)
    assert "strawberry" not in suite.database.read_bytes().decode("latin-1")
    output = suite.regressions()[1]
    assert all(line in output for line in told[1:])
    (changed,) = {json.dumps(one["changed"]) for one in json.loads(suite.regressions("--json")[1])}
    names = [(one["kind"], one["name"]) for one in json.loads(changed)["differences"]]
    assert names == [("definition", "env.MORE"), ("parameters", "scale"), ("environment", "FLAVOUR")]
    assert {"packages", "machine"} <= set(json.loads(changed)["same"])
    shown = warm.run("curator-bench", "show", "run_2", cwd=project.folder).stdout
    assert "what changed before sort sort_time_s +" in shown
    assert "    parameters: scale 100 → 1000" in shown
    document = json.loads(warm.run("curator-bench", "show", "run_2", "--json", cwd=project.folder).stdout)
    assert [(one["metric"], one["since"]) for one in document["changes"]] == [("sort_time_s", "run_2")]
    report = warm.run("curator-bench", "report", "--format", "markdown", cwd=project.folder).stdout
    assert "**sort sort_time_s on " in report
    assert "- parameters: scale 100 → 1000" in report


def test_the_command_that_would_tell_the_cause_is_offered_everywhere(project: Project) -> None:
    """Another version of a package is there when it gets slower."""
    suite = Suite(project)
    suite.remember(FAST)
    suite.measures(1.0)
    assert suite.run(PYTHONPATH=str(with_package(project.folder / "old", "1.0"))).code == 0
    suite.measures(3.0)
    outcome = suite.run("--bench-confirm", "3", PYTHONPATH=str(with_package(project.folder / "new", "2.0")))
    command = "curator-bench bisect --packages run_1 run_2 --entry sort --metric sort_time_s"
    told = "To find the cause:", f"which package: {command}"
    assert outcome.has(*told)
    assert all(f"    {line}" in suite.regressions()[1] for line in told)
    assert warm.run("curator-bench", "report", "--out", "site", cwd=project.folder).returncode == 0
    assert f'which package: <code class="command">{command}</code>' in (project.folder / "site/index.html").read_text()


def with_package(folder: Path, version: str) -> Path:
    about = folder / f"tiny-{version}.dist-info"
    about.mkdir(parents=True)
    (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: tiny\nVersion: {version}\n")
    return folder


def test_compare_says_what_changed_between_its_sides(project: Project) -> None:
    suite = Suite(project)
    suite.remember(FAST)
    suite.measures(1.0)
    suite.run()
    suite.project.write("work.py", WORK.replace('"scale": 100', '"scale": 1000'))
    suite.measures(5.0)
    suite.run("--bench-runs", "4")
    compare = ("compare", "run_1", "run_2")
    told = warm.run("curator-bench", *compare, cwd=suite.project.folder).stdout
    assert "    parameters: scale 100 → 1000" in told
    markdown = warm.run("curator-bench", *compare, "--markdown", cwd=suite.project.folder).stdout
    assert "- parameters: scale 100 → 1000" in markdown
    assert '  +options.benchmark_results_path.joinpath("params.json")' in markdown
    rows = json.loads(warm.run("curator-bench", *compare, "--json", cwd=suite.project.folder).stdout)
    (changed,) = [row["changed"] for row in rows if row["metric"] == "sort_time_s"]
    assert {"kind": "parameters", "name": "scale", "before": "100", "after": "1000"} in changed["differences"]
