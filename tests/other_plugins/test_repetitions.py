"""pytest-repeat: each repetition is a run of the same benchmark."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from other_plugins.conftest import Repository

TWICE = ("--count", "2")
SOME = ("-k", "plain or axes or sorting", "benchmarks")
BENCHMARKS = ["axes[1-a]", "axes[1-b]", "axes[2-a]", "axes[2-b]", "plain", "test_sorting[10]", "test_sorting[20]"]


@pytest.mark.parametrize("how", [(), ("-n", "2"), ("--repeat-scope", "session")], ids=["here", "workers", "session"])
def test_repetitions_are_runs_of_one_history(repository: Repository, how: tuple[str, ...]) -> None:
    output = repository.measure(*TWICE, *how, *SOME)
    rows = repository.rows("name, verdict, definition_hash")
    assert sorted(name for name, *_ in rows) == sorted(2 * BENCHMARKS)
    assert {verdict for _, verdict, _ in rows} == {"passed"}
    assert len(set(rows)) == len(BENCHMARKS)
    assert "14 passed" in output
    progress = json.loads((repository.session / "progress.json").read_text())
    assert (progress["total"], progress["done"], progress["waiting"]) == (10, 10, 0)


def test_a_repetition_has_the_definition_of_a_single_run(repository: Repository) -> None:
    repository.measure(*SOME)
    repository.measure(*TWICE, *SOME)
    assert len(set(repository.rows("name, definition_hash"))) == len(BENCHMARKS)


def test_no_repetition_overwrites_another(repository: Repository) -> None:
    repository.measure("--count", "3", "-n", "2", "-k", "plain", "benchmarks")
    assert sorted(repository.rows("attempt")) == [1, 2, 3]
    logs = repository.session.glob("plain/**/stdouterr.log")
    assert len(list(logs)) == 3


def test_repetitions_of_a_done_entry_are_not_run_again(repository: Repository) -> None:
    repository.measure("-k", "plain", "benchmarks")
    output = repository.measure(*TWICE, "--bench-resume", "-k", "plain or (axes and 1-a)", "benchmarks")
    assert "2 passed" in output
    assert sorted(repository.rows("name")) == ["axes[1-a]", "axes[1-a]", "plain"]


@pytest.mark.slow
def test_repetitions_in_a_fleet_run_one_after_the_other(repository: Repository) -> None:
    fleet = ("--bench-fleet", "local", "--bench-fleet-cpus", "2")
    repository.measure("--count", "3", *fleet, "-k", "plain", "benchmarks")
    assert repository.rows() == [("plain", 1, "passed"), ("plain", 2, "passed"), ("plain", 3, "passed")]
