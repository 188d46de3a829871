"""What an entry with an empty script takes over running that script by hand.

pytest runs a matrix of one entry and a matrix of several; their difference, by the number of further entries, is what
an entry takes, without pytest's own start. With a cluster it is compared to a bare `ray start --head`, from its start
until it prints its address. What counts is the median of the rounds.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from statistics import median

from pytest_process import make_project, parser_with, write_results
from small_entries import run_by_hand, run_matrix, write_matrix, write_script

BLOCKS = {
    "own": "{num_cpus: 2, object_store_size: 200000000}",
    "reuse": "{num_cpus: 2, object_store_size: 200000000, reuse: true}",
    "none": "false",
}
ANNOUNCEMENT = b"--address="


def entry_s(project: Path, block: str, few: int, many: int) -> float:
    """Seconds an entry takes beyond the first `few` ones."""
    less = run_matrix(write_matrix(project, few, block)).wall_s
    more = run_matrix(write_matrix(project, many, block)).wall_s
    return (more - less) / (many - few)


def ray_start_s(folder: Path) -> float:
    """A bare `ray start --head` until it prints how to join it."""
    env = {name: value for name, value in os.environ.items() if not name.startswith("RAY_")}
    env |= {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": os.urandom(16).hex(), "RAY_USAGE_STATS_ENABLED": "0"}
    command = [sys.executable, "-m", "ray.scripts.scripts", "start", "--head", "--block", "--port=0", "--num-cpus=2"]
    command += ["--include-dashboard=false", "--object-store-memory=200000000"]
    start = time.perf_counter()
    process = subprocess.Popen(
        command, cwd=folder, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True
    )
    assert process.stdout
    try:
        for line in process.stdout:
            if ANNOUNCEMENT in line:
                return time.perf_counter() - start
        sys.exit("ray start ended without printing its address")
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        process.stdout.close()


def main() -> None:
    parser = parser_with(__doc__)
    parser.add_argument("--ray", choices=BLOCKS, required=True)
    parser.add_argument("--entries", type=int, required=True)
    parser.add_argument("--rounds", type=int, required=True)
    options = parser.parse_args()
    project = make_project(options.scratch.resolve() / "project")
    write_script(project)
    few = 2 if options.ray == "reuse" else 1
    run_matrix(write_matrix(project, few, BLOCKS[options.ray]))
    rounds = []
    for _ in range(options.rounds):
        taken = entry_s(project, BLOCKS[options.ray], few, options.entries)
        rounds.append((taken - run_by_hand(project).wall_s, ray_start_s(project) if options.ray == "own" else 0.0))
    metrics = {"added_s": median(added for added, _ in rounds)}
    if options.ray == "own":
        metrics["ray_start_s"] = median(bare for _, bare in rounds)
        metrics["ratio_to_ray_start"] = median(added / bare for added, bare in rounds)
    write_results(options, metrics)


if __name__ == "__main__":
    main()
