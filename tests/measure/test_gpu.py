"""GPUs as the real pynvml tells them, from a stand-in for the driver's library."""

from __future__ import annotations

import csv
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from curator_bench.measure.gpu_health import kernel_inventory
from curator_bench.measure.nvml import Device, find_device, visible_words

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the stand-in is a Linux library")

WithGpus = Callable[..., Any]
SOURCE = Path(__file__).parents[2] / "src"

SAMPLE = """
import json, logging, os, sys, time
from pathlib import Path
from curator_bench.measure.gpu import GpuSampler
logging.basicConfig(level=logging.DEBUG)
sampler = GpuSampler(Path("gpustats.csv"), interval_s=0.05)
sampler.start()
for state in os.environ.get("THEN", "").split("|"):
    time.sleep(0.4)
    if state:
        listed = Path(os.environ["NVML_STAND_IN"])
        listed.with_suffix(".new").write_text(state.replace(" ", "\\n"))
        listed.with_suffix(".new").replace(listed)
sampler.stop()
print(json.dumps({"metrics": sampler.metrics(), "warnings": sampler.warnings()}))
"""

ASK = """
import json
from dataclasses import asdict
from curator_bench.measure.gpu import busy_gpus
from curator_bench.measure.gpu_health import gpu_health, gpu_inventory
print(json.dumps({
    "busy": [asdict(gpu) for gpu in busy_gpus(0.01)],
    "told": [str(gpu) for gpu in busy_gpus(0.01)],
    "health": [asdict(gpu) for gpu in gpu_health()],
    "inventory": asdict(gpu_inventory()),
}))
"""

GIB = 1 << 30


def rows_in(folder: Path) -> list[dict[str, str]]:
    with (folder / "gpustats.csv").open(newline="") as file:
        return list(csv.DictReader(file))


def test_every_gpu_has_a_row_at_every_interval(with_gpus: WithGpus, tmp_path: Path) -> None:
    told = with_gpus("healthy busy", SAMPLE)
    rows = rows_in(tmp_path)
    assert len(rows) >= 6
    assert [row["gpu"] for row in rows] == ["0", "1"] * (len(rows) // 2)
    assert rows[1] == {
        "time": rows[1]["time"],
        "gpu": "1",
        "uuid": "GPU-00000001-aaaa-bbbb-cccc-ddddddddeeee",
        "utilization_percent": "93",
        "memory_used_bytes": str(60 * GIB),
        "memory_total_bytes": str(80 * GIB),
        "temperature_c": "71",
        "power_w": "400.5",
        "processes": "2",
    }
    assert rows[0]["time"].endswith("+00:00")
    assert told["warnings"] == []
    assert told["metrics"] == {
        "peak_gpu_memory_bytes": 60 * GIB,
        "average_gpu_memory_bytes": 60 * GIB,
        "peak_gpu_utilization": 46.5,
        "average_gpu_utilization": 46.5,
        "peak_gpu_temperature_c": 71,
        "average_gpu_power_w": 460.5,
    }


@pytest.mark.parametrize("lost", ["lost", "failing"])
def test_a_gpu_that_is_lost_in_mid_run_costs_its_rows_and_no_others(
    with_gpus: WithGpus, tmp_path: Path, lost: str
) -> None:
    told = with_gpus("busy busy", SAMPLE, THEN=f"busy {lost}|busy busy")
    indices = [row["gpu"] for row in rows_in(tmp_path)]
    assert "".join(indices).count("00") >= 2
    assert indices[:2] == indices[-2:] == ["0", "1"]
    (warning,) = told["warnings"]
    assert warning.startswith("GPU 1 (Stand-in X100, GPU-00000001-")
    assert "GPU is lost" in warning
    assert told["metrics"]["peak_gpu_memory_bytes"] == 120 * GIB


def test_a_gpu_that_was_lost_from_the_start_is_told_of(with_gpus: WithGpus, tmp_path: Path) -> None:
    told = with_gpus("lost healthy", SAMPLE)
    assert {row["gpu"] for row in rows_in(tmp_path)} == {"1"}
    assert told["warnings"] == ["GPU 0 (unknown): GPU is lost; gpustats.csv lacks its rows from then on"]


def test_what_a_gpu_cannot_tell_is_an_empty_cell(with_gpus: WithGpus, tmp_path: Path) -> None:
    told = with_gpus("poor", SAMPLE)
    row = rows_in(tmp_path)[0]
    assert row["memory_used_bytes"] == "0"
    assert [row[name] for name in ("utilization_percent", "temperature_c", "power_w", "processes")] == [""] * 4
    assert told == {"metrics": {"peak_gpu_memory_bytes": 0, "average_gpu_memory_bytes": 0}, "warnings": []}


def test_a_fault_during_the_run_is_told_of_once(with_gpus: WithGpus) -> None:
    told = with_gpus("healthy", SAMPLE, THEN="faulty")
    assert told["warnings"] == [
        "GPU GPU-00000000-aaaa-bbbb-cccc-ddddddddeeee: the driver reported a fault (Xid 79) during the run"
    ]


@pytest.mark.parametrize(
    ("visible", "indices"),
    [
        ("1", ["1"]),
        ("2,0", ["2", "0"]),
        ("GPU-00000002", ["2"]),
        ("GPU-00000002,2,GPU-00000000-aaaa-bbbb-cccc-ddddddddeeee", ["2", "0"]),
        ("0,9,1", ["0"]),
        ("GPU-0000000", []),
        ("-1", []),
        ("", []),
    ],
)
def test_only_the_gpus_that_cuda_shows_the_script_are_sampled(
    with_gpus: WithGpus, tmp_path: Path, visible: str, indices: list[str]
) -> None:
    told = with_gpus("busy busy busy", SAMPLE, CUDA_VISIBLE_DEVICES=visible)
    if indices:
        assert [row["gpu"] for row in rows_in(tmp_path)][: len(indices)] == indices
        assert told["metrics"]["peak_gpu_memory_bytes"] == len(indices) * 60 * GIB
    else:
        assert not (tmp_path / "gpustats.csv").exists()
        assert told == {"metrics": {}, "warnings": []}


def test_a_slice_of_a_gpu_is_sampled_as_far_as_it_tells(with_gpus: WithGpus, tmp_path: Path) -> None:
    with_gpus("healthy sliced", SAMPLE, CUDA_VISIBLE_DEVICES="MIG-00000001-aaaa-bbbb-cccc-ddddddddeeee")
    row = rows_in(tmp_path)[0]
    assert (row["gpu"], row["uuid"][:12], row["memory_total_bytes"]) == ("1", "MIG-00000001", str(10 * GIB))


def test_gpus_in_use_are_found_with_who_uses_them(with_gpus: WithGpus) -> None:
    told = with_gpus("healthy busy lost poor", ASK)
    (busy,) = told["busy"]
    assert (busy["index"], busy["used_bytes"], busy["pids"]) == (1, 60 * GIB, [4242, 4343])
    (text,) = told["told"]
    assert text == (
        "GPU 1 (Stand-in X100, GPU-00000001-aaaa-bbbb-cccc-ddddddddeeee): 60.0 of 80.0 GiB (75 %) in use, "
        "by the processes 4242, 4343"
    )


def test_gpus_in_use_are_only_those_the_script_sees(with_gpus: WithGpus) -> None:
    assert with_gpus("healthy busy", ASK, CUDA_VISIBLE_DEVICES="0")["busy"] == []


def test_memory_that_the_driver_keeps_for_itself_is_no_use(with_gpus: WithGpus) -> None:
    code = "import json; from curator_bench.measure.gpu import busy_gpus; print(json.dumps(len(busy_gpus(0.005))))"
    assert with_gpus("healthy", code) == 0
    assert with_gpus("old", code) == 1  # a driver that cannot tell it apart


def test_the_health_of_each_gpu_is_listed(with_gpus: WithGpus) -> None:
    states = "healthy lost worn faulty prohibited poor"
    health = dict(zip(states.split(), with_gpus(states, ASK)["health"], strict=True))
    assert health["healthy"]["problems"] == health["poor"]["problems"] == []
    assert health["healthy"]["compute_mode"] == "default"
    assert health["healthy"]["memory_total_bytes"] == 80 * GIB
    assert health["lost"]["problems"] == ["cannot be used: GPU is lost"]
    assert health["worn"]["uncorrected_ecc_errors"] == 3
    assert health["worn"]["row_remap_failed"] is True
    assert len(health["worn"]["problems"]) == 2
    assert health["faulty"]["problems"] == ["the driver asks for a recovery after a fault: reset the GPU"]
    assert health["prohibited"]["problems"][0].startswith("compute mode is prohibited")
    assert health["poor"]["compute_mode"] is None


def test_the_inventory_is_the_machine_s_whatever_is_visible(with_gpus: WithGpus) -> None:
    told = with_gpus("healthy busy", ASK, CUDA_VISIBLE_DEVICES="")
    assert told["health"] == []
    assert told["inventory"] == {"driver": "999.42.01", "models": ["Stand-in X100"] * 2, "cuda": None}


@pytest.mark.parametrize("states", ["", "no-driver"])
def test_without_a_gpu_or_driver_all_works_and_nothing_is_written(
    with_gpus: WithGpus, tmp_path: Path, states: str
) -> None:
    assert with_gpus(states, SAMPLE) == {"metrics": {}, "warnings": []}
    assert with_gpus(states, ASK)["busy"] == []
    assert not (tmp_path / "gpustats.csv").exists()


def test_without_a_driver_s_library_that_is_said_once_at_debug_level(tmp_path: Path) -> None:
    code = (
        "import logging; logging.basicConfig(level=logging.DEBUG);"
        "from pathlib import Path; from curator_bench.measure.gpu import GpuSampler, busy_gpus;"
        "from curator_bench.measure.gpu_health import gpu_health, gpu_inventory\n"
        "for _ in range(3):\n"
        "    sampler = GpuSampler(Path('gpustats.csv')); sampler.start(); sampler.stop()\n"
        "    assert (busy_gpus(0.01), gpu_health(), gpu_inventory().models) == ([], [], ())\n"
        "    assert (sampler.metrics(), sampler.warnings()) == ({}, ())\n"
    )
    env = os.environ | {"LD_LIBRARY_PATH": str(tmp_path), "PYTHONPATH": str(SOURCE)}
    if _library_is_installed():
        pytest.skip("this machine has an NVIDIA driver")
    done = subprocess.run([sys.executable, "-c", code], env=env, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    (line,) = [line for line in done.stderr.splitlines() if "GPU" in line]
    assert line.startswith("DEBUG:")
    assert os.listdir(tmp_path) == []


def _library_is_installed() -> bool:
    import pynvml

    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError as refusal:
        return bool(refusal.value != pynvml.NVML_ERROR_LIBRARY_NOT_FOUND)
    pynvml.nvmlShutdown()
    return True


def test_a_driver_out_of_order_is_a_warning(with_gpus: WithGpus) -> None:
    (warning,) = with_gpus("mismatch", SAMPLE)["warnings"]
    assert "version mismatch" in warning


def test_a_driver_that_hangs_holds_nobody_up(with_gpus: WithGpus) -> None:
    code = """
import json, os, time
from pathlib import Path
from curator_bench.measure.gpu import GpuSampler
from curator_bench.measure.nvml import ask_driver
began = time.monotonic()
answer = ask_driver(lambda driver: driver.version(), "none", patience_s=0.5)
sampler = GpuSampler(Path("gpustats.csv"))
sampler.start()
sampler.stop()
print(json.dumps([answer, len(sampler.warnings()), time.monotonic() - began]), flush=True)
os._exit(0)
"""
    answer, warnings, took_s = with_gpus("hanging", code)
    assert (answer, warnings) == ("none", 2)
    assert took_s < 25


def test_a_disk_that_is_full_costs_the_file_and_not_the_figures(with_gpus: WithGpus) -> None:
    no_room = "import resource\nresource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))\n"
    told = with_gpus("busy", no_room + SAMPLE)
    (warning,) = told["warnings"]
    assert "File too large" in warning
    assert told["metrics"]["peak_gpu_memory_bytes"] == 60 * GIB


def test_a_process_that_is_killed_leaves_whole_rows(with_gpus: WithGpus, tmp_path: Path) -> None:
    with_gpus("busy", SAMPLE.replace("sampler.stop()", "print('{}', flush=True); os._exit(0)"))
    text = (tmp_path / "gpustats.csv").read_text()
    assert text.endswith("\n")
    assert {len(row) for row in csv.reader(text.splitlines())} == {9}


def test_a_row_that_has_no_room_leaves_no_part_of_itself(tmp_path: Path) -> None:
    code = """
import resource
from pathlib import Path
from curator_bench.measure.samples import RowFile
resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100))
rows, refusals = RowFile(Path("rows.csv"), ["number", "text"]), 0
for number in range(20):
    try:
        rows.add([(number, "ten letters")])
    except OSError:
        refusals += 1
assert refusals > 5
"""
    env = os.environ | {"PYTHONPATH": str(SOURCE)}
    subprocess.run([sys.executable, "-c", code], env=env, cwd=tmp_path, check=True)
    lines = (tmp_path / "rows.csv").read_text().splitlines()
    assert lines == ["number,text", *(f"{number},ten letters" for number in range(len(lines) - 1))]
    assert len(lines) > 3


def test_the_kernel_names_the_gpus_where_the_driver_s_library_does_not(tmp_path: Path) -> None:
    for number in range(2):
        folder = tmp_path / "gpus" / f"0000:0{number}:00.0"
        folder.mkdir(parents=True)
        (folder / "information").write_text("Model: \t\t NVIDIA A100-SXM4-80GB\nIRQ:   \t\t 42\n")
    version = tmp_path / "version"
    for line in ("x86_64 Kernel Module  535.129.03  Thu Oct 19", "Open Kernel Module for x86_64  535.129.03  Release"):
        version.write_text(f"NVRM version: NVIDIA UNIX {line} Build\nGCC version: 12.2.0\n")
        assert kernel_inventory(tmp_path).driver == "535.129.03"
    assert kernel_inventory(tmp_path).models == ("NVIDIA A100-SXM4-80GB",) * 2
    assert kernel_inventory(tmp_path / "missing").models == ()


def test_words_of_cuda_visible_devices_name_devices() -> None:
    devices = [Device(0, "GPU-aa11", "X", None), Device(1, "GPU-aa22", "X", None)]
    assert visible_words({}) is None
    assert visible_words({"CUDA_VISIBLE_DEVICES": " 1 ,0"}) == ["1", "0"]
    assert find_device("1", devices) is devices[1]
    assert find_device("GPU-aa2", devices) is devices[1]
    assert find_device("GPU-aa", devices) is None  # not the only one
    assert find_device("", devices) is None
