"""The doctor: what it says of machines whose kernel files are written here, of stand-in GPUs, and of this machine."""

from __future__ import annotations

import itertools
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import warm

from curator_bench.doctor.conditions import Condition, State
from curator_bench.doctor.demands import Resources, demand_conditions
from curator_bench.doctor.examination import ray_condition
from curator_bench.doctor.limits import limit_conditions
from curator_bench.doctor.memory import memory_conditions
from curator_bench.doctor.noise import noise_condition, noise_of
from curator_bench.doctor.occupation import occupation_conditions, pressure_conditions
from curator_bench.doctor.processors import processor_conditions
from curator_bench.measure.cgroup import CgroupLimits
from curator_bench.measure.kernel_files import Tree
from curator_bench.runner.fitness import unfit
from curator_bench.values import Entry, MatrixFile, Place, RaySettings

CPU = "sys/devices/system/cpu"
HUGE_PAGES = "sys/kernel/mm/transparent_hugepage/enabled"
LAPTOP = {
    f"{CPU}/cpu0/cpufreq/scaling_governor": "performance",
    f"{CPU}/cpu1/cpufreq/scaling_governor": "powersave",
    f"{CPU}/intel_pstate/no_turbo": "0",
    f"{CPU}/smt/active": "1",
    f"{CPU}/cpu0/cpufreq/cpuinfo_max_freq": "4800000",
    f"{CPU}/cpu0/cpufreq/scaling_max_freq": "2000000",
    f"{CPU}/cpu0/thermal_throttle/core_throttle_count": "1200",
    f"{CPU}/cpu1/thermal_throttle/core_throttle_count": "34",
    "proc/meminfo": "MemTotal: 16384000 kB\nSwapTotal: 4194304 kB\nSwapFree: 2097152 kB\n",
    HUGE_PAGES: "[always] madvise never",
    "proc/sys/net/ipv4/ip_local_port_range": "60000 60999",
    "proc/pressure/cpu": "some avg10=31.50 avg60=2.00 avg300=1.00 total=1\n",
    "proc/pressure/io": "some avg10=7.25 avg60=2.00 avg300=1.00 total=1\nfull avg10=1.0 avg60=0 avg300=0 total=0",
    "proc/pressure/memory": "some avg10=2.00 avg60=2.00 avg300=1.00 total=1\n",
}
SERVER = {
    f"{CPU}/cpu0/cpufreq/scaling_governor": "performance",
    f"{CPU}/cpufreq/boost": "0",
    f"{CPU}/smt/active": "0",
    f"{CPU}/cpu0/cpufreq/cpuinfo_max_freq": "3100000",
    f"{CPU}/cpu0/cpufreq/scaling_max_freq": "3100000",
    f"{CPU}/cpu0/thermal_throttle/core_throttle_count": "0",
    "proc/meminfo": "MemTotal: 1024 kB\nSwapTotal: 0 kB\nSwapFree: 0 kB\n",
    HUGE_PAGES: "always [madvise] never",
    "proc/sys/net/ipv4/ip_local_port_range": "32768 60999",
    "proc/pressure/cpu": "some avg10=0.10 avg60=2.00 avg300=1.00 total=1\n",
    "proc/loadavg": "0.35 1.00 2.00 1/200 4711",
    "proc/pressure/io": "some avg10=0.00 avg60=2.00 avg300=1.00 total=1\n",
    "proc/pressure/memory": "some avg10=0.00 avg60=2.00 avg300=1.00 total=1\n",
}


def tree(root: Path, files: dict[str, str]) -> Tree:
    for path, text in files.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(f"{text}\n")
    return Tree(root)


def examined(kernel: Tree, folder: Path, limits: CgroupLimits | None = None) -> dict[str, Condition]:
    limits = limits or CgroupLimits()
    found = [
        *processor_conditions(kernel, limits, 4),
        *memory_conditions(kernel, limits, folder),
        *pressure_conditions(kernel, 4),
        *occupation_conditions(kernel, lambda seconds: None),
        *limit_conditions(kernel, []),
    ]
    assert len({condition.name for condition in found}) == len(found)
    return {condition.name: condition for condition in found}


def states(conditions: Iterable[Condition]) -> dict[str, str]:
    return {condition.name: str(condition.state) for condition in conditions}


def test_what_makes_a_machine_noisy_is_said_with_its_cost_and_the_command_that_mends_it(tmp_path: Path) -> None:
    found = examined(tree(tmp_path, LAPTOP), tmp_path)
    warned = {name: condition for name, condition in found.items() if condition.state is State.WARNING}
    assert {"governor", "turbo", "hyper-threading", "clock", "heat", "swap", "huge pages", "ports"} < set(warned)
    assert {"pressure on cpu", "pressure on io", "pressure on memory"} < set(warned)
    assert all(condition.cost and condition.remedy for condition in warned.values())
    assert found["governor"].found == "performance, powersave"
    assert "--governor performance" in found["governor"].remedy
    assert found["turbo"].remedy == f"echo 1 | sudo tee /{CPU}/intel_pstate/no_turbo"
    assert found["clock"].found == "limited to 2.00 of 4.80 GHz"
    assert "1,234 times" in found["heat"].found
    assert found["swap"].found == "2.00 GiB used"
    assert found["pressure on cpu"].found == "processes waited 31.5 % of the last 10 seconds"


def test_a_machine_that_was_tuned_is_good(tmp_path: Path) -> None:
    found = examined(tree(tmp_path, SERVER), tmp_path)
    told = states(condition for name, condition in found.items() if name not in ("open files", "other processes"))
    assert set(told.values()) == {"good"}, told


def test_a_machine_that_tells_nothing_is_unknown_and_costs_no_traceback(tmp_path: Path) -> None:
    found = examined(Tree(tmp_path), tmp_path / "no such folder")
    told = states(condition for name, condition in found.items() if name not in ("open files", "processors"))
    assert set(told.values()) == {"unknown"}, told


def test_files_of_the_kernel_that_hold_something_else_are_unknown(tmp_path: Path) -> None:
    found = examined(tree(tmp_path, dict.fromkeys(LAPTOP, "what nobody has seen")), tmp_path)
    assert found["turbo"].state is found["clock"].state is found["ports"].state is State.UNKNOWN


def test_a_quota_of_processor_time_is_said_and_whole_processors_are_not(tmp_path: Path) -> None:
    limited = examined(Tree(tmp_path), tmp_path, CgroupLimits(2, None, 1.5, "0-3"))["processors"]
    assert (limited.state, limited.found) == (State.WARNING, "1.5 processors' time on 4 processors")
    pinned = examined(Tree(tmp_path), tmp_path, CgroupLimits(2, None, None, "0-1"))["processors"]
    assert (pinned.state, pinned.found) == (State.GOOD, "2 of 4, without a quota of time")


def test_other_processes_are_named_by_what_they_take_while_it_looks(tmp_path: Path) -> None:
    ticks = os.sysconf("SC_CLK_TCK")

    def stat(pid: int, name: str, seconds: float, parent: int = 1) -> dict[str, str]:
        fields = ["S", parent, *[0] * 9, int(seconds * ticks), 0, *[0] * 6, 77]
        return {f"proc/{pid}/stat": f"{pid} ({name}) {' '.join(map(str, fields))}"}

    ours = stat(os.getpid(), "curator-bench", 5, parent=50) | stat(50, "a shell) 1", 3)
    kernel = tree(tmp_path, ours | stat(60, "old work", 900) | stat(70, "quiet", 10))

    def a_second(seconds: float) -> None:
        tree(tmp_path, stat(os.getpid(), "curator-bench", 6, parent=50) | stat(50, "a shell) 1", 4))
        tree(tmp_path, stat(60, "old work", 900.5) | stat(80, "new (work", 0.25))

    found = next(iter(occupation_conditions(kernel, a_second)))
    assert found.state is State.WARNING
    assert found.found == "they take 75% of a core: old work (pid 60) 50%, new (work (pid 80) 25%"


def entry(name: str, ray: RaySettings | None = None, **needs: Any) -> Entry:
    return replace(Entry(name, Place("m.yaml", 7), MatrixFile("m.yaml", "."), "s.py", ray=ray), **needs)


def test_what_entries_ask_for_in_vain_is_one_line_with_the_entries(tmp_path: Path) -> None:
    has = Resources(cpus=4, gpus=1, memory_bytes=16 * 2**30, shared_memory_bytes=2**30)
    entries = [
        entry("fits", RaySettings(num_cpus=4, num_gpus=1, object_store_size=0.05)),
        entry("no ray"),
        *(entry(f"many GPUs {number}", RaySettings(num_gpus=8)) for number in range(5)),
        entry("many CPUs", RaySettings(num_cpus=64)),
        entry("huge store", RaySettings(object_store_size=500 * 2**30)),
        entry("store on disk", RaySettings(object_store_size=4 * 2**30)),
        entry("elsewhere", RaySettings(num_cpus=64, address="auto")),
        entry("a module", requires=("json", "no_such_module.part")),
        entry("a program", requires_programs=("sh", "no_such_program")),
        entry("a dataset"),
    ]
    found = demand_conditions(entries, {"a dataset": ["dataset news: no such file"]}, has)
    said = {condition.found: condition for condition in found}
    lacking = [text for text, condition in said.items() if condition.state is State.MISSING]
    assert lacking == [
        "8 GPUs asked for, 1 here",
        "64 CPUs asked for, 4 here",
        "an object store of 500.00 GiB asked for, 16.00 GiB of memory here",
        "no module no_such_module.part",
        "no program no_such_program",
        "dataset news: no such file",
    ]
    without = said["8 GPUs asked for, 1 here"].cost
    assert without.endswith("what needs a GPU fails or waits: many GPUs 0, many GPUs 1, many GPUs 2 and 2 more")
    on_disk = said["an object store of 4.00 GiB asked for, 1.00 GiB of shared memory free here"]
    assert (on_disk.state, on_disk.cost) == (
        State.WARNING,
        "objects are on disk, which is many times slower: store on disk",
    )


def test_noise_is_that_of_the_times_of_equal_work(monkeypatch: pytest.MonkeyPatch) -> None:
    # A clock that work moves by 1.00, 1.01, 0.99 … s; the last piece takes three times as long.
    moved = itertools.accumulate(itertools.chain(itertools.islice(itertools.cycle((1.0, 1.01, 0.99)), 20), [3.0]))
    clock = [0.0]
    monkeypatch.setattr(time, "perf_counter", lambda: clock[0])
    noise = noise_of("noise", lambda: clock.__setitem__(0, next(moved)), 20.2)
    assert noise.units == 20
    assert [noise.median_s, noise.slowest] == pytest.approx([1.0, 3.0])
    assert noise.spread == pytest.approx(0.0148, abs=1e-4)
    said = noise_condition(noise, lambda spread: f"{spread:.4f}")
    assert (said.state, said.cost) == (State.WARNING, "0.0148")


@pytest.mark.parametrize(("version", "state"), [("2.52.0", "good"), ("3.0.1", "good"), ("2.9.3", "warning")])
def test_a_ray_that_is_too_old_is_said(version: str, state: str) -> None:
    assert str(ray_condition(version).state) == state


RESTORES_CTRL_C = """
import os, signal, sys
signal.signal(signal.SIGINT, signal.SIG_DFL)
os.execv(sys.argv[1], sys.argv[1:])
"""
MATRIX = """\
entries:
  - {name: small, script: s.py, ray: false}
  - {name: large, script: s.py, ray: {num_cpus: 100000}}
"""


def test_the_command_exits_with_one_only_where_a_matrix_asks_for_what_is_not_there(tmp_path: Path) -> None:
    (tmp_path / "s.py").write_text("")
    (tmp_path / "matrix.yaml").write_text(MATRIX)
    without = warm.run("curator-bench", "doctor", "--load", "0.05", cwd=tmp_path)
    assert without.returncode == 0, without.stderr
    assert re.search(r"^CHECK +STATE +FOUND$", without.stdout, re.MULTILINE)
    assert re.search(r"^noise of memory +(good|warning) ", without.stdout, re.MULTILINE)
    assert without.stdout.splitlines()[-1].startswith("Fit to measure")
    found = warm.run("curator-bench", "doctor", "--load", "0", "matrix.yaml", cwd=tmp_path)
    assert found.returncode == 1
    assert "of such a machine: large\n    run them elsewhere, or set num_cpus (matrix.yaml:3)" in found.stdout
    assert found.stdout.splitlines()[-1] == "Not fit for this matrix: 1 thing it asks for is missing here."


def test_ctrl_c_ends_the_load_alone(tmp_path: Path) -> None:
    command = [str(Path(sys.executable).with_name("curator-bench")), "doctor", "--load", "600"]
    interruptible = [sys.executable, "-c", RESTORES_CTRL_C, *command]
    with subprocess.Popen(interruptible, cwd=tmp_path, stdout=-1, stderr=-1, text=True) as doctor:
        assert doctor.stderr
        assert doctor.stderr.readline() == "Measuring the noise of this machine for 600 s\n"
        doctor.send_signal(signal.SIGINT)
        output, _ = doctor.communicate(timeout=60)
    assert doctor.returncode == 0
    assert re.search(r"^swap ", output, re.MULTILINE)
    assert re.search(r"^noise +unknown +not measured: ended by Ctrl-C$", output, re.MULTILINE)


def test_json_has_the_same(tmp_path: Path) -> None:
    done = warm.run("curator-bench", "doctor", "--load", "0", "--json", cwd=tmp_path)
    document = json.loads(done.stdout)
    assert document["schema_version"] == 1
    assert {"governor", "swap", "other processes", "Ray", "GPUs"} < {one["name"] for one in document["conditions"]}
    assert all(set(one) == {"name", "state", "found", "cost", "remedy"} for one in document["conditions"])


def test_a_matrix_with_mistakes_is_one_message(tmp_path: Path) -> None:
    (tmp_path / "matrix.yaml").write_text("entries: 3\n")
    done = warm.run("curator-bench", "doctor", "--load", "0", "matrix.yaml", cwd=tmp_path)
    assert done.returncode == 1
    assert "matrix.yaml:1" in done.stderr
    assert "Traceback" not in done.stderr


def test_gpus_that_are_not_as_they_should_be_are_said(tmp_path: Path, nvml_library: Path) -> None:
    listed = tmp_path / "gpus"
    listed.write_text("healthy\ndetuned\nbusy\nworn\npoor\nlost\n")
    env = {name: value for name, value in os.environ.items() if name != "CUDA_VISIBLE_DEVICES"}
    env |= {"NVML_STAND_IN": str(listed), "LD_LIBRARY_PATH": str(nvml_library)}
    command = [str(Path(sys.executable).with_name("curator-bench")), "doctor", "--load", "0", "--json"]
    done = subprocess.run(command, env=env, cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    said = {(one["name"], one["state"]): one for one in json.loads(done.stdout)["conditions"] if "GPU" in one["name"]}
    warned = [name for name, state in said if state == "warning"]
    assert warned == [
        "GPU 1, persistence",
        "GPU 1, clock",
        "GPU 1, power",
        "GPU 1, slowed down",
        "GPU 1, ECC",
        "GPU 2, other processes",
        "GPU 3",
        "GPU 5",
    ]
    assert said["GPU 1, clock", "warning"]["found"] == "limited to 1200 of 1980 MHz"
    assert said["GPU 1, power", "warning"]["remedy"] == "sudo nvidia-smi --id 1 --power-limit 700"
    assert said["GPU 1, slowed down", "warning"]["found"] == "by its heat limit, the hardware, for heat"
    assert said["GPU 2, other processes", "warning"]["found"] == "2 processes: pid 4242, 4343"
    assert said["GPU 1, ECC", "warning"]["found"] == "on, and off after the next reset"
    assert said["GPU 1, ECC", "warning"]["remedy"].endswith("sudo nvidia-smi --id 1 --ecc-config 1")
    assert said["GPU 0, ECC", "good"]["found"] == "on"
    assert {("GPU 4, clock", "unknown"), ("GPU 4, ECC", "unknown")} < set(said)


def test_only_what_makes_runs_fail_is_warned_of_in_each_session(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    laptop = examined(tree(tmp_path / "laptop", LAPTOP), tmp_path)
    assert unfit([*laptop.values()]) == ""
    starved = {"proc/pressure/memory": "some avg10=12.00 avg60=2.00 avg300=1.00 total=1\n"}
    short_of_memory = [*pressure_conditions(tree(tmp_path / "starved", starved), 4)]
    for free, said in ((4 * 2**30, "pressure on memory"), (2**30 - 1, "pressure on memory, disk")):
        usage = type(shutil.disk_usage(tmp_path))(10 * 2**30, 10 * 2**30 - free, free)
        monkeypatch.setattr("curator_bench.doctor.limits.shutil.disk_usage", lambda folder, usage=usage: usage)
        disk = next(iter(limit_conditions(Tree(tmp_path), [tmp_path])))
        assert disk.state is State.WARNING
        assert unfit([*short_of_memory, disk]) == (
            f"this machine is short of what runs need: {said}; see `curator-bench doctor`"
        )
