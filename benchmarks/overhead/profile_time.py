"""What py-spy costs a script: the same work with and without it, in turn, recorded as `--bench-profile` does.

The script times its own work, so that starting and attaching do not count. It waits until it is told to begin. `ratio`
leaves out the time in which other processes had the processors (Linux), so it holds on a busy machine.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from statistics import median

from pytest_process import parser_with, write_results

from curator_bench.cluster.environment import without_ray
from curator_bench.cluster.local import LocalCluster
from curator_bench.cluster.model import Cluster, ClusterRequest
from curator_bench.execution.profilers.profiler import ProfiledRun
from curator_bench.execution.profilers.py_spy import PySpy
from curator_bench.values import RaySettings

COMPUTES = """\
import json, sys, time
rounds = int(sys.argv[1])

def waited_for_processors():
    try:
        with open("/proc/self/schedstat") as file:
            return int(file.read().split()[1]) / 1e9
    except OSError:
        return 0.0

sys.stdin.readline()
began, waited = time.perf_counter(), waited_for_processors()
for _ in range(rounds):
    json.loads(json.dumps([{"number": number, "text": str(number)} for number in range(2000)]))
taken = time.perf_counter() - began
print(taken, taken - (waited_for_processors() - waited))
"""
ON_RAY = """\
import sys, time
import ray
ray.init(log_to_driver=False, logging_level="ERROR")

@ray.remote
def work():
    return sum(number * number for number in range(200_000))

ray.get([work.remote() for _ in range(20)])
sys.stdin.readline()
began = time.perf_counter()
ray.get([work.remote() for _ in range(int(sys.argv[1]))])
print(time.perf_counter() - began, time.perf_counter() - began)
"""


class Work:
    """A script that does a fixed amount of work."""

    def __init__(self, script: Path, amount: int, cluster: Cluster | None = None) -> None:
        self._script, self._amount, self._cluster = script, amount, cluster
        self.samples = 0

    def seconds(self, *, is_profiled: bool) -> tuple[float, float]:
        """Return the time of the work; also without the time in which others had the processors."""
        env = {**without_ray(os.environ), **(self._cluster.env if self._cluster else {})}
        words = [sys.executable, str(self._script), str(self._amount)]
        pipe = subprocess.PIPE
        with subprocess.Popen(words, env=env, text=True, stdin=pipe, stdout=pipe) as process:
            spy = self._spy(env) if is_profiled else None
            if spy is not None:
                spy.started(process.pid)
            taken, own = map(float, process.communicate("begin\n")[0].split()[-2:])
        if spy is not None:
            spy.stop()
            if spy.warnings():
                sys.exit("; ".join(spy.warnings()))
            self.samples = sum(profile.total for profile in spy.profiles())
        return taken, own

    def _spy(self, env: dict[str, str]) -> PySpy:
        folder = self._script.parent
        pids = self._cluster.pids[-1:] if self._cluster else ()
        return PySpy(ProfiledRun("work", folder, sys.executable, str(folder), env, cluster_pids=pids))

    def compared(self, rounds: int) -> dict[str, float]:
        """Median of the ratios of two neighbours. Which of them comes first changes from round to round."""
        ratios = []
        for number in range(rounds):
            is_first = bool(number % 2)
            one, two = self.seconds(is_profiled=is_first), self.seconds(is_profiled=not is_first)
            profiled, plain = (one, two) if is_first else (two, one)
            ratios.append((profiled[0] / plain[0], profiled[1] / plain[1]))
        wall, own = (median(both) for both in zip(*ratios, strict=True))
        return {"wall_ratio": wall, "ratio": own, "samples": self.samples}


def on_ray(scratch: Path, amount: int, rounds: int) -> dict[str, float]:
    script = scratch / "on_ray.py"
    script.write_text(ON_RAY)
    provider = LocalCluster()
    try:
        request = ClusterRequest(
            settings=RaySettings(num_cpus=2, object_store_size=200_000_000),
            marker=os.urandom(8).hex(),
            env=os.environ,
            log_path=scratch / "ray_startup.log",
        )
        return Work(script, amount, provider.start(request)).compared(rounds)
    finally:
        provider.close()


def main() -> None:
    parser = parser_with(__doc__)
    parser.add_argument("--amount", type=int, required=True, help="work of the script; on Ray, half as many tasks")
    parser.add_argument("--rounds", type=int, required=True)
    parser.add_argument("--ray", action="store_true", help="also of a script with Ray, and of its workers")
    options = parser.parse_args()
    scratch: Path = options.scratch.resolve()
    scratch.mkdir(parents=True, exist_ok=True)
    script = scratch / "computes.py"
    script.write_text(COMPUTES)
    measured = Work(script, options.amount).compared(options.rounds)
    if options.ray:
        found = on_ray(scratch, max(20, options.amount // 2), options.rounds)
        measured |= {"ray_wall_ratio": found["wall_ratio"], "ray_samples": found["samples"]}
    write_results(options, measured)


if __name__ == "__main__":
    main()
