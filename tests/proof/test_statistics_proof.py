"""Regressions are told from noise as well as is promised, and better than by the rules that are in use elsewhere."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest
import warm
from detection import measure
from detectors import DETECTORS, improvements
from planted_causes import Size, make_history
from planted_causes import score as score_of_causes
from real_series import FINDERS, replay, score
from table import read, table

from curator_bench.store.database import database_url, open_for_writing

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "benchmarks" / "statistics"
DETECTORS_PYTHON = Path(os.environ.get("DETECTORS_PYTHON", ROOT / ".venv-detectors" / "bin" / "python"))
FULL = os.environ.get("CURATOR_BENCH_PROOF") == "full"
SERIES = 10_000 if FULL else 500
SERIES_OF_OTHERS = 1000 if FULL else 100
MOST_FALSE_ALARMS = 2 if FULL else 4
"""Per 1,000 series. Fewer series than in full show less surely what is rare: so much more is allowed for chance."""
SEED = 20_261_204
"""Nobody has looked at series of this seed while the rule was made; whoever changes the rule takes another."""


@pytest.fixture(scope="module")
def ours() -> dict[str, float]:
    found = measure(DETECTORS["curator-bench"], SERIES, SEED, mirrored=improvements)
    print(json.dumps(found, indent=2))
    return found


def test_the_goals_are_met(ours: dict[str, float]) -> None:
    assert ours["false_alarms_per_1000"] <= MOST_FALSE_ALARMS
    assert ours["false_improvements_per_1000"] <= MOST_FALSE_ALARMS
    if FULL:
        promised = ("normal", "lognormal", "bimodal", "outliers")
        assert sum(ours[f"false_alarms_per_1000_{family}"] for family in promised) / len(promised) <= 1.5
        assert ours["false_alarms_per_1000_correlated"] <= 5
    slack = 0.0 if FULL else 0.01
    assert ours["found_10_percent_in_2_runs_normal_lognormal"] >= 0.98 - slack
    assert ours["found_10_percent_in_2_runs"] >= 0.95 - slack
    assert ours["found_5_percent_in_6_runs"] >= 0.925 - slack


def test_real_steps_are_found_and_real_noise_is_not_called() -> None:
    found = score(FINDERS["curator-bench"], 300 if FULL else 60, SEED)
    slack = 0.0 if FULL else 0.005
    assert found["steps_found"] >= 0.96
    assert found["calls_that_last"] >= 0.92
    assert found["false_alarms"] <= 0.005 + slack
    assert found["x2_and_x12_found"] >= (0.983 if FULL else 0.975)


def test_of_the_calls_made_run_by_run_most_last() -> None:
    """Fewer histories show it less surely; before histories of many levels asked for more it was 81 %."""
    found = replay(FINDERS["curator-bench"], 1 if FULL else 16)
    assert found["replayed_calls_that_last"] >= (0.85 if FULL else 0.82)


@pytest.mark.skipif(not DETECTORS_PYTHON.exists(), reason="asv and Otava are not installed: make detectors")
def test_all_three_goals_at_once_are_met_by_no_other_rule(ours: dict[str, float], tmp_path: Path) -> None:
    """The others see the first of the same series."""
    others = [name for name in DETECTORS if name != "curator-bench"]
    for detector in others:
        results = tmp_path / detector / "benchmark_results"
        words = ["--series", str(SERIES_OF_OTHERS), "--seed", str(SEED), "--benchmark-results-path", str(results)]
        command: list[str | Path] = [DETECTORS_PYTHON, FOLDER / "detection.py", "--detector", detector, *words]
        subprocess.run(command, check=True, capture_output=True)
    found = read(tmp_path)
    print("\n".join(table({"curator-bench": ours, **found})))
    assert list(found) == others
    for name, theirs in found.items():
        assert ours["found_10_percent_in_2_runs"] > theirs["found_10_percent_in_2_runs"], name
        assert ours["found_5_percent_in_6_runs"] > theirs["found_5_percent_in_6_runs"], name
        assert ours["false_alarms_per_1000"] <= max(theirs["false_alarms_per_1000"], MOST_FALSE_ALARMS), name


def test_each_of_thirty_causes_on_three_machines_is_one_finding(tmp_path: Path) -> None:
    size = Size(1000, 200, 30, 600) if FULL else Size(100, 200, 30, 600)
    file = tmp_path / "history.db"
    with open_for_writing(database_url(str(file))) as database:
        causes = make_history(database, size, SEED)
    said = warm.run("curator-bench", "regressions", "--db", file, "--json", cwd=tmp_path)
    found = score_of_causes(causes, json.loads(said.stdout))
    assert found.found >= 29
    assert (found.split, found.merged, found.false) == (0, 0, 0)
