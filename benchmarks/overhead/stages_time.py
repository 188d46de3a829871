"""What recording stages costs: a script on Ray with and without it, side by side, and one stage of a script.

The script takes its own time. Both sides run on one cluster, in turn, which side first changes from round to round.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
import timeit
from pathlib import Path
from statistics import median

import psutil
from pytest_process import parser_with, write_results

from curator_bench import stage, stages
from curator_bench.cluster.environment import without_ray
from curator_bench.cluster.local import LocalCluster
from curator_bench.cluster.model import Cluster, ClusterRequest
from curator_bench.measure.ray_tasks import RayTaskPrograms, RayTaskSampler
from curator_bench.measure.schedule import Schedule
from curator_bench.values import RaySettings

WORK = """\
import sys, time
began = time.perf_counter()
import ray
ray.init(log_to_driver=False, logging_level="ERROR")

@ray.remote
def work(seconds):
    began = time.process_time()
    while time.process_time() - began < seconds:
        pass

count, seconds = int(sys.argv[1]), float(sys.argv[2])
ray.get([work.remote(seconds) for _ in range(count)])
print(time.perf_counter() - began)
"""
TASK_S = 0.01
USES = 200_000


class Side:
    """One way to run the script."""

    def __init__(self, cluster: Cluster, script: Path, tasks: int) -> None:
        self._cluster, self._script, self._tasks = cluster, script, tasks
        self.env = {**without_ray(os.environ), **cluster.env}
        self._programs = RayTaskPrograms(Schedule())
        self.asking_cpu_s = 0.0
        """Processor time of the program that asks the cluster, while the last script ran."""
        self.stages = 0

    def plain_s(self) -> float:
        command = [sys.executable, str(self._script), str(self._tasks), str(TASK_S)]
        outcome = subprocess.run(command, env=self.env, capture_output=True, text=True, check=True)
        return float(outcome.stdout.split()[-1])

    def recorded_s(self) -> float:
        sampler = RayTaskSampler(
            self._cluster.python, self.env, session_dir=self._cluster.session_dir, programs=self._programs, is_new=True
        )
        sampler.start()
        before = self._cpu_s()
        taken = self.plain_s()
        self.asking_cpu_s = self._cpu_s() - before
        if not self.asking_cpu_s:
            sys.exit("the program that asks the cluster did not run")
        sampler.stop()
        self.stages = len(sampler.stages())
        return taken

    def _cpu_s(self) -> float:
        """Processor time so far of the program, which is a child of this process once a driver has connected."""
        asking = [child for child in psutil.Process().children() if "ray_tasks_program" in " ".join(child.cmdline())]
        return sum(child.cpu_times().user + child.cpu_times().system for child in asking)

    def close(self) -> None:
        self._programs.end()


def compared(side: Side, rounds: int) -> dict[str, float]:
    side.recorded_s()  # the program starts, and the workers
    ratios, shares = [], []
    memory = psutil.Process().memory_info().rss
    for number in range(rounds):
        first, second = (side.plain_s, side.recorded_s) if number % 2 else (side.recorded_s, side.plain_s)
        one, two = first(), second()
        plain, recorded = (one, two) if number % 2 else (two, one)
        ratios.append(recorded / plain)
        shares.append(side.asking_cpu_s / recorded)
    return {
        "time_ratio": median(ratios),
        "percent_of_a_core": 100 * median(shares),
        "extra_memory_mb": (psutil.Process().memory_info().rss - memory) / 2**20,
        "stages": side.stages,
    }


def stage_us(scratch: Path) -> dict[str, float]:
    """Microseconds of an empty stage, where nobody listens, and in a script of the bench."""
    unheard = each_us()
    code = f"import os; os.environ[{stages.STAGES_FILE!r}] = {str(scratch / 'stages.jsonl')!r}\n"
    code += "import stages_time\nprint(stages_time.each_us())"
    command = [sys.executable, "-c", code]
    outcome = subprocess.run(
        command, cwd=Path(__file__).parent, capture_output=True, text=True, check=True, env={**os.environ}
    )
    return {"stage_unheard_us": unheard, "stage_us": float(outcome.stdout.split()[-1])}


def each_us() -> float:
    """Microseconds of processor time that an empty stage takes."""
    one = stage("one")

    def use() -> None:
        with one:
            pass

    before = time.process_time()
    timeit.timeit(use, number=USES)
    return 1e6 * (time.process_time() - before) / USES


def main() -> None:
    parser = parser_with(__doc__)
    parser.add_argument("--tasks", type=int, required=True)
    parser.add_argument("--rounds", type=int, required=True)
    options = parser.parse_args()
    scratch: Path = options.scratch.resolve()
    scratch.mkdir(parents=True, exist_ok=True)
    script = scratch / "work.py"
    script.write_text(WORK)
    provider = LocalCluster()
    try:
        request = ClusterRequest(
            settings=RaySettings(num_cpus=2, object_store_size=200_000_000),
            marker=os.urandom(8).hex(),
            env=os.environ,
            log_path=scratch / "ray_startup.log",
        )
        side = Side(provider.start(request), script, options.tasks)
        try:
            measured = compared(side, options.rounds)
        finally:
            side.close()
    finally:
        provider.close()
    write_results(options, {**measured, **stage_us(scratch)})


if __name__ == "__main__":
    main()
