"""Open findings at the end of a session: a gate that has become used to a slow level does not hide them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from click.testing import CliRunner
from end_to_end.test_gates import LEVEL, Gated

from curator_bench.cli import group

if TYPE_CHECKING:
    from end_to_end.conftest import Project

SLOW = (1.25 + 0.02 * np.random.default_rng(5).standard_normal(12)).tolist()


@pytest.fixture
def gated(project: Project) -> Gated:
    return Gated(project)


def said(output: str) -> list[str]:
    return [line for line in output.splitlines() if line.startswith("open regression: ")]


def listed(gated: Gated) -> list[dict[str, Any]]:
    asked = ["regressions", "--json", "--db", str(gated.project.folder / "benchmark.db")]
    found: list[dict[str, Any]] = json.loads(CliRunner().invoke(group, asked).stdout)
    return found


def test_a_gate_that_is_used_to_the_slow_level_passes_and_the_open_finding_is_named(gated: Gated) -> None:
    gated.entry(1.25)
    gated.remember([*LEVEL, *SLOW])
    outcome = gated.run("--benchmark", "--benchmark-db", "benchmark.db")
    assert outcome.code == 0
    (line,) = said(outcome.output)
    (open_one,) = listed(gated)
    assert f"sort sort_time_s on {open_one['machine']} +{open_one['change'] * 100:.1f}% since " in line
    assert line.endswith(f"({open_one['finding']})")
    assert outcome.has("sort", "open regression: ", "`curator-bench regressions` says more", "Session: ")
    (told,) = outcome.json("summary.json")["findings"]
    assert (told["name"], told["entry"], told["metric"]) == (open_one["finding"], "sort", "sort_time_s")
    assert told["changed"][0].startswith("commits ")


def test_nothing_is_said_after_it_was_accepted(gated: Gated) -> None:
    gated.entry(1.25)
    gated.remember([*LEVEL, *SLOW])
    (open_one,) = listed(gated)
    accepted = ["accept", open_one["finding"], "--why", "wanted", "--db", str(gated.project.folder / "benchmark.db")]
    assert CliRunner().invoke(group, accepted).exit_code == 0
    outcome = gated.run("--benchmark", "--benchmark-db", "benchmark.db")
    assert (outcome.code, said(outcome.output), outcome.json("summary.json")["findings"]) == (0, [], [])


def test_entries_without_a_gate_and_those_that_did_not_run_are_not_asked(gated: Gated) -> None:
    gated.entry(1.25)
    gated.remember([*LEVEL, *SLOW])
    gated.project.matrix(gated.project.entry("sort"), gated.project.entry("other"))
    outcome = gated.run("--benchmark", "--benchmark-db", "benchmark.db")
    assert (outcome.code, said(outcome.output)) == (0, [])
    gated.entry(1.25)
    outcome = gated.run("--benchmark", "--benchmark-db", "benchmark.db", "--collect-only")
    assert (outcome.code, said(outcome.output)) == (0, [])


@pytest.mark.parametrize("where", [[], ["-n1"]], ids=["here", "xdist"])
def test_sinks_are_told_of_one_finding_once(gated: Gated, where: list[str]) -> None:
    gated.project.write(
        "told.py",
        """
        import json
        from curator_bench import Sink

        class Told(Sink):
            def end_session(self, summary):
                found = [[one.name, one.title, list(one.entries), one.changed[0]] for one in summary.findings]
                (self.context.matrix_dir / "told.json").write_text(json.dumps(found))
        """,
    )
    gated.entry(1.25)
    (entry,) = json.loads((gated.project.folder / "matrix.yaml").read_text())["entries"]
    gated.project.matrix(entry, sinks=[{"name": "./told.py:Told"}])
    gated.remember([*LEVEL, *SLOW])
    assert gated.run("--benchmark", "--benchmark-db", "benchmark.db", *where).code == 0
    ((name, title, entries, changed),) = json.loads((gated.project.folder / "told.json").read_text())
    assert name == listed(gated)[0]["finding"]
    assert title.startswith("sort sort_time_s on ")
    assert entries == ["sort"]
    assert changed.startswith("commits ")
