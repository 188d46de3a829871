"""What a machine did during a run, from recorded files of kernels and from real processes."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from curator_bench.measure.cgroup import read_throttling
from curator_bench.measure.cpu_time import CpuLedger
from curator_bench.measure.kernel_files import Tree
from curator_bench.measure.machine_counters import ProcessorTime, clock_mhz, machine_counters, processor_time
from curator_bench.measure.other_processes import Descendants, OtherProcesses
from curator_bench.measure.processes import busyness
from curator_bench.measure.run_queue import RunQueue
from curator_bench.measure.usage import ProcessUsage
from curator_bench.measure.witness import Moment, Witness, lost_s

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="it reads /proc")

TICKS = os.sysconf("SC_CLK_TCK")
SPIN = "import time\nbegan = time.process_time()\nwhile time.process_time() - began < {0}: pass"
V1 = "3:cpu,cpuacct:/docker/abc\n0::/\n"
V2 = "0::/system.slice/bench.service\n"
MOUNT_V1 = "30 25 0:26 / /sys/fs/cgroup/cpu rw shared:9 - cgroup cgroup rw,cpu,cpuacct\n"
MOUNT_V2 = "30 25 0:26 / /sys/fs/cgroup rw shared:9 - cgroup2 cgroup2 rw\n"


def write(root: Path, files: dict[str, str]) -> Path:
    for path, text in files.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text)
    return root


def stat(pid: int, name: str, seconds: float, started: int = 5, parent: int = 1) -> dict[str, str]:
    fields = ["S", f"{parent}", *["0"] * 9, f"{round(seconds * TICKS)}", "0", *["0"] * 6, f"{started}", *["0"] * 20]
    return {f"proc/{pid}/stat": f"{pid} ({name}) {' '.join(fields)}\n"}


def moment(at: float, *, own: float, waited: float, busy: float) -> Moment:
    return Moment(at, ProcessorTime(busy, 0.0, 0.0, 0.0), own, own, waited)


NOTHING = moment(0.0, own=0.0, waited=0.0, busy=0.0)


def test_a_burner_on_all_cores_takes_what_the_run_waited() -> None:
    assert lost_s(NOTHING, moment(1.0, own=0.5, waited=0.5, busy=2.0), 2) == pytest.approx(0.5)


def test_a_run_with_more_workers_than_processors_does_not_disturb_itself() -> None:
    assert lost_s(NOTHING, moment(1.0, own=2.0, waited=6.0, busy=2.0), 2) == 0.0
    bursts = moment(1.0, own=1.0, waited=3.0, busy=1.02)
    assert lost_s(NOTHING, bursts, 2) == pytest.approx(0.02)


def test_a_neighbour_on_a_free_core_takes_nothing() -> None:
    assert lost_s(NOTHING, moment(1.0, own=1.0, waited=0.01, busy=2.0), 2) == pytest.approx(0.01)


def test_threads_that_came_and_went_between_samples_waited_as_the_others_did() -> None:
    now = Moment(1.0, ProcessorTime(2.0, 0.0, 0.0, 0.0), own_s=1.0, ran_s=0.5, waited_s=0.2)
    assert lost_s(NOTHING, now, 2) == pytest.approx(0.4)


def test_waiting_is_summed_over_all_threads_and_kept_when_they_end(tmp_path: Path) -> None:
    def thread(tid: int, ran: float, waited: float) -> None:
        write(tmp_path, {f"proc/7/task/{tid}/schedstat": f"{round(ran * 1e9)} {round(waited * 1e9)} 4\n"})

    queue = RunQueue(tmp_path)
    thread(7, 100.0, 50.0)
    queue.update([7])
    assert (queue.ran_s, queue.waited_s) == (0.0, 0.0), "what was before the run is not of the run"
    thread(7, 101.0, 50.5)
    thread(8, 3.0, 2.0)
    queue.update([7])
    assert (queue.ran_s, queue.waited_s) == (4.0, 2.5)
    (tmp_path / "proc/7/task/8/schedstat").unlink()
    queue.update([7])
    assert (queue.ran_s, queue.waited_s) == (4.0, 2.5)


def test_a_kernel_that_does_not_count_waiting_leaves_it_out(tmp_path: Path) -> None:
    write(tmp_path, {"proc/stat": "cpu  100 0 50 300 0 0 0 7 0 0\n", **stat(7, "run", 1.0)})
    witness = Witness(lambda: [7], root=tmp_path, cpus=2)
    witness.start()
    write(tmp_path, {"proc/stat": "cpu  300 0 50 300 100 0 0 57 0 0\n"})
    witness.stop()
    found = witness.metrics()
    assert found["machine.others_cpu_s"] == pytest.approx(200 / TICKS)
    assert found["machine.stolen_s"] == pytest.approx(50 / TICKS)
    assert found["machine.disk_wait_s"] == pytest.approx(100 / TICKS)
    assert not {"machine.cpu_wait_s", "machine.cpu_wait_for_others_s", "machine.pressure_cpu_s"} & set(found)


def test_a_machine_that_tells_nothing_costs_no_error_and_no_figure(tmp_path: Path) -> None:
    witness = Witness(lambda: [7], root=tmp_path)
    witness.start()
    witness.stop()
    assert witness.metrics() == {}
    assert witness.warnings() == ()
    assert processor_time(Tree(tmp_path)) is None


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        (
            {
                "proc/self/cgroup": V1,
                "proc/self/mountinfo": MOUNT_V1,
                "sys/fs/cgroup/cpu/docker/abc/cpu.stat": "nr_periods 9\nnr_throttled 4\nthrottled_time 2500000000\n",
            },
            (4, 2.5),
        ),
        (
            {
                "proc/self/cgroup": V2,
                "proc/self/mountinfo": MOUNT_V2,
                "sys/fs/cgroup/system.slice/bench.service/cpu.stat": "nr_throttled 3\nthrottled_usec 1500000",
            },
            (3, 1.5),
        ),
    ],
)
def test_throttling_is_read_of_both_versions_of_control_groups(
    tmp_path: Path, files: dict[str, str], expected: tuple[int, float]
) -> None:
    found = read_throttling(write(tmp_path, files))
    assert found is not None
    assert (found.periods, found.seconds) == expected
    assert read_throttling(tmp_path / "nothing") is None


def test_counters_of_the_machine_are_differences_and_what_began_anew_is_left_out(tmp_path: Path) -> None:
    cpu = "sys/devices/system/cpu"
    files = {
        "proc/pressure/cpu": "some avg10=1.00 avg60=1.00 avg300=1.00 total=1000000\nfull avg10=0.00 total=5\n",
        "proc/vmstat": "pswpin 10\npswpout 20\n",
        "proc/net/snmp": "Tcp: RtoMin RetransSegs\nTcp: 200 17\n",
        "proc/diskstats": "8 0 sda 1 2 3 4 5 6 7 8 0 1500 11\n8 1 sda1 1 2 3 4 5 6 7 8 0 1400 11\n",
        "sys/block/sda/size": "1\n",
        f"{cpu}/cpu0/thermal_throttle/core_throttle_count": "5\n",
        f"{cpu}/cpu0/cpufreq/scaling_cur_freq": "2000000\n",
        f"{cpu}/cpu1/cpufreq/scaling_cur_freq": "4000000\n",
    }
    tree = Tree(write(tmp_path, files))
    before = machine_counters(tree)
    assert (before.disk_busy_s, before.heat_throttles, before.network_resent) == (1.5, 5, 17)
    assert clock_mhz(tree) == 3000.0
    write(tmp_path, {"proc/pressure/cpu": "some avg10=1.00 avg60=1.00 avg300=1.00 total=3500000\n"})
    write(tmp_path, {"proc/vmstat": "pswpin 12\npswpout 0\n"})
    found = machine_counters(tree).since(before)
    assert found["pressure_cpu_s"] == 2.5
    assert found["swapped_in_bytes"] == 2 * os.sysconf("SC_PAGE_SIZE")
    assert "swapped_out_bytes" not in found
    assert "throttled_s" not in found


def test_other_processes_are_named_by_what_they_took_without_those_of_the_run(tmp_path: Path) -> None:
    write(tmp_path, {**stat(7, "run", 1.0), **stat(8, "cc1plus", 5.0), **stat(9, "quiet", 1.0)})
    others = OtherProcesses(Tree(tmp_path))
    others.look([7])
    write(tmp_path, {**stat(7, "run", 9.0), **stat(8, "cc1plus", 8.0), **stat(10, "ld (new)", 1.5, started=9)})
    others.look([7])
    assert others.seconds == {"cc1plus": 3.0, "ld (new)": 1.5}


def test_what_the_processes_of_a_run_start_is_known_before_all_are_looked_up_again(tmp_path: Path) -> None:
    write(tmp_path, {**stat(7, "raylet", 1.0), **stat(8, "cc1plus", 5.0)})
    descendants = Descendants(Tree(tmp_path))
    write(tmp_path, {**stat(11, "worker", 0.0, parent=12), **stat(12, "starter", 0.0, parent=7)})
    write(tmp_path, stat(13, "ld", 0.0, parent=8))
    assert descendants.of([7]) == [7, 11, 12]
    write(tmp_path, stat(14, "python", 0.0, parent=11))
    assert descendants.of([7, 12]) == [7, 11, 12, 14]
    shutil.rmtree(tmp_path / "proc" / "11")
    assert descendants.of([7, 12]) == [7, 12, 14]


STARTS_WORKERS = """
import subprocess, sys, time
sys.stdin.readline()
workers = [subprocess.Popen([sys.executable, "-c", sys.argv[1]]) for _ in range(2)]
print("started", flush=True)
sys.stdin.readline()
for one in workers:
    one.kill()
    one.wait()
"""


def test_workers_that_a_run_starts_later_are_none_of_the_others() -> None:
    """As Ray's are, of a run whose processes are looked up now and then only."""
    command = [sys.executable, "-c", STARTS_WORKERS, SPIN.format(60)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as parent:
        assert parent.stdin
        assert parent.stdout
        witness = Witness(lambda: [parent.pid])
        witness.start()
        parent.stdin.write(b"\n")
        parent.stdin.flush()
        parent.stdout.readline()
        time.sleep(1.5)
        witness.stop()
        parent.communicate(b"\n")
    ran = witness.metrics()["machine.cpu_s"]
    assert isinstance(ran, float)
    assert ran > 1.0 / busyness(), "they spin"


def test_an_interval_in_which_unseen_work_may_be_the_runs_own_is_not_held_against_others() -> None:
    def usage(pid: int, parent: int, seconds: float) -> ProcessUsage:
        return ProcessUsage(pid, 5.0, parent, private_bytes=0, cpu_s=seconds, waited_cpu_s=0.0)

    ledger = CpuLedger(1.0)
    ledger.update([usage(7, 1, 1.0), usage(8, 7, 3.0)], {})
    assert not ledger.has_lost_sight
    ledger.update([usage(7, 1, 1.1)], {})  # the raylet does not wait for its workers
    assert ledger.has_lost_sight
    ledger.update([usage(7, 1, 1.2)], {})
    assert not ledger.has_lost_sight


@contextmanager
def spinning(seconds: float) -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen([sys.executable, "-c", SPIN.format(seconds)])
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def test_a_real_process_that_shares_one_core_with_another_has_waited_for_it() -> None:
    """Both are bound to one core, so that it does not matter what else the machine does."""
    core = {min(os.sched_getaffinity(0))}
    with spinning(60) as ours, spinning(60) as other:
        for one in (ours, other):
            os.sched_setaffinity(one.pid, core)
        witness = Witness(lambda: [ours.pid], cpus=1)
        witness.start()
        time.sleep(1.2)
        witness.stop()
    found = witness.metrics()
    waited, ran = found["machine.cpu_wait_for_others_s"], found["machine.cpu_s"]
    assert isinstance(waited, float)
    assert isinstance(ran, float)
    assert waited > 0.25 * (waited + ran), found
    assert witness.warnings() == ()
