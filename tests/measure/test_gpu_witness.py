"""What GPUs did during a run, as the real pynvml tells it from a stand-in for the driver's library."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import pytest

from curator_bench.measure.gpu_witness import GpuWitness

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the stand-in is a Linux library")

WithGpus = Callable[..., Any]
WATCH = """
import json, os, time
from pathlib import Path
from curator_bench.measure.gpu_witness import GpuWitness
witness = GpuWitness()
witness.start()
time.sleep(0.2)
if os.environ.get("THEN"):
    listed = Path(os.environ["NVML_STAND_IN"])
    listed.with_suffix(".new").write_text(os.environ["THEN"])
    listed.with_suffix(".new").replace(listed)
witness.stop()
print(json.dumps({"metrics": dict(witness.metrics()), "warnings": witness.warnings()}))
"""


def test_clocks_slowdowns_limits_and_other_processes_of_gpus_are_recorded(with_gpus: WithGpus) -> None:
    told = with_gpus("busy", WATCH)
    assert told["warnings"] == []
    assert told["metrics"] == {
        "machine.gpu_clock_mhz": 1830.0,
        "machine.gpu_slowed_share": 0.0,
        "machine.gpu_power_limit_w": 700.0,
        "machine.gpu_other_processes": 2,
        "machine.gpu_ecc_errors": 0,
    }
    slowed = with_gpus("detuned", WATCH)["metrics"]
    assert (slowed["machine.gpu_clock_mhz"], slowed["machine.gpu_power_limit_w"]) == (1100.0, 450.0)
    assert (slowed["machine.gpu_slowed_share"], slowed["machine.gpu_slowed_by"]) == (
        1.0,
        "its heat limit, the hardware, for heat",
    )


def test_only_errors_of_the_memory_during_the_run_are_counted(with_gpus: WithGpus) -> None:
    assert with_gpus("healthy", WATCH, THEN="worn")["metrics"]["machine.gpu_ecc_errors"] == 3
    assert with_gpus("worn", WATCH)["metrics"]["machine.gpu_ecc_errors"] == 0


def test_gpus_that_tell_nothing_or_are_lost_cost_no_error(with_gpus: WithGpus) -> None:
    for state in ("poor", "lost"):
        told = with_gpus(state, WATCH)
        assert told["warnings"] == []
        assert "machine.gpu_clock_mhz" not in told["metrics"]


def test_without_a_driver_nothing_is_recorded() -> None:
    witness = GpuWitness()
    witness.start()
    witness.stop()
    assert witness.metrics() == {}
