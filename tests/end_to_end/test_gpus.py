"""Runs on a machine with GPUs, as far as a stand-in for the driver's library can have it; and on one without."""

from __future__ import annotations

import csv
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from end_to_end.conftest import Outcome, Project

GIB = 1 << 30


@pytest.fixture
def run_with_gpus(project: Project, nvml_library: Path) -> Callable[..., Outcome]:
    """Runs one entry where GPUs are in these states."""

    def run(states: str, args: str = "--sleep 1", visible: str = "0,1", **keys: Any) -> Outcome:
        listed = project.write("gpus", "".join(f"{state}\n" for state in states.split()))
        project.matrix(project.entry("one", args, **keys), gpu_stats_recorder={"interval_s": 0.2})
        variables = {
            "NVML_STAND_IN": str(listed),
            "LD_LIBRARY_PATH": str(nvml_library),
            "CUDA_VISIBLE_DEVICES": visible,
        }
        return project.run(**variables)

    return run


def rows(outcome: Outcome) -> list[dict[str, str]]:
    with (outcome.session_dir / "one" / "gpustats.csv").open() as file:
        return list(csv.DictReader(file))


def test_what_gpus_do_is_recorded_and_in_the_metrics(run_with_gpus: Callable[..., Outcome]) -> None:
    outcome = run_with_gpus("busy healthy", requirements=[{"metric": "peak_gpu_utilization", "min_value": 1}])
    assert outcome.code == 0, outcome.output
    recorded = rows(outcome)
    assert len(recorded) >= 6
    assert {row["gpu"] for row in recorded} == {"0", "1"}
    assert {(row["gpu"], row["utilization_percent"], row["processes"]) for row in recorded} >= {("0", "93", "2")}
    metrics = outcome.json("one", "results.json")["metrics"]
    assert metrics["peak_gpu_memory_bytes"] >= 60 * GIB
    assert metrics["peak_gpu_utilization"] == metrics["average_gpu_utilization"] > 40
    assert {"peak_gpu_temperature_c", "average_gpu_power_w", "average_gpu_memory_bytes"} <= set(metrics)
    assert outcome.json("env", f"{outcome.json('one', 'results.json')['host']}.json")["gpus"]


def test_a_gpu_in_use_before_or_after_is_a_warning_that_names_it(run_with_gpus: Callable[..., Outcome]) -> None:
    warnings = run_with_gpus("healthy busy").json("one", "results.json")["warnings"]
    assert [text.partition(" (")[0] for text in warnings] == ["before the run, GPU 1", "after the run, GPU 1"]
    assert "60.0 of 80.0 GiB (75 %) in use, by the processes 4242, 4343" in warnings[0]


def test_a_gpu_the_run_leaves_in_use_is_told_after_it(project: Project, run_with_gpus: Callable[..., Outcome]) -> None:
    project.write(
        "script.py",
        """
        import os, sys
        from pathlib import Path
        Path(os.environ["NVML_STAND_IN"]).write_text("busy\\n")
        Path(sys.argv[-1], "metrics.json").write_text("{}")
        Path(sys.argv[-1], "params.json").write_text("{}")
        """,
    )
    outcome = run_with_gpus("healthy", "")
    assert [text.partition(" (")[0] for text in outcome.json("one", "results.json")["warnings"]] == [
        "after the run, GPU 0"
    ]
    assert outcome.has("warning: one: after the run, GPU 0")


@pytest.mark.parametrize(
    "why_not", [{"gpu_mem_use_warning_threshold": 0.9}, {"visible": "0"}], ids=["threshold", "not_visible"]
)
def test_use_below_the_threshold_and_on_gpus_the_script_cannot_see_is_no_matter(
    run_with_gpus: Callable[..., Outcome], why_not: dict[str, Any]
) -> None:
    outcome = run_with_gpus("healthy busy", **why_not)
    assert outcome.json("one", "results.json")["warnings"] == []
    if "visible" in why_not:
        assert {row["gpu"] for row in rows(outcome)} == {"0"}


@pytest.mark.parametrize("states", ["no-driver", ""])
def test_without_a_driver_or_a_gpu_everything_works(run_with_gpus: Callable[..., Outcome], states: str) -> None:
    outcome = run_with_gpus(states, "")
    assert outcome.code == 0
    results = outcome.json("one", "results.json")
    assert results["warnings"] == []
    assert not [name for name in results["metrics"] if "gpu" in name]
    assert rows(outcome) == []  # the matrix asks for the recorder; without that there is no file
