"""NeMo Curator's ALM script and ours as users run them: timed from process start to process end, both writing.

--curator-side says what NeMo Curator's side is: `script` is the benchmark script of a checkout of its repository,
unchanged, whose windows are in the tasks.pkl it leaves; `stages` are its stages with its manifest writer. Ours writes a
manifest. Each round runs ours, theirs, theirs, ours, so that what else the machine does meets both. The cluster of the
run is there before the first process starts; ours does not use it.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from statistics import mean, median
from time import perf_counter
from typing import Any, NamedTuple

import psutil
from alm_results import Metrics, write_results
from alm_written import Entries, entries_in_manifest, entries_in_tasks

PIPELINE = Path(__file__).with_name("alm_pipeline.py")
SCRIPT = Path("benchmarking", "scripts", "alm_pipeline_benchmark.py")
MANIFEST = Path("tests", "fixtures", "audio", "alm", "sample_input.jsonl")
RUN_MARKER = "CURATOR_BENCH_RUN"
COUNTED = ("total_builder_windows", "total_filtered_windows", "total_filtered_dur_s", "num_output_entries")


@dataclass(frozen=True, slots=True)
class Side:
    """A command, and where it leaves what."""

    name: str
    command: tuple[str, ...]
    results: Path
    written: Path
    """A folder with a manifest, or the tasks.pkl that holds every curated entry."""

    def entries(self) -> Entries:
        return entries_in_tasks(self.written) if self.written.name == "tasks.pkl" else entries_in_manifest(self.written)


class Ended(NamedTuple):
    """What one process, from its start to its end, cost and left."""

    seconds: float
    cpu_seconds: float
    counts: tuple[Any, ...]
    entries: Entries


class Round(NamedTuple):
    ours: tuple[Ended, Ended]
    theirs: tuple[Ended, Ended]

    @property
    def times_as_fast(self) -> float:
        return mean(run.seconds for run in self.theirs) / mean(run.seconds for run in self.ours)

    @property
    def times_the_cpu(self) -> float:
        return mean(run.cpu_seconds for run in self.theirs) / mean(run.cpu_seconds for run in self.ours)


def our_side(options: argparse.Namespace) -> Side:
    folder = options.scratch / "ours"
    command = _pipeline(options, folder, "--engine", "builtin", "--executor", options.our_executor)
    return Side("ours", command, folder, folder / "curated")


def their_side(options: argparse.Namespace) -> Side:
    folder = options.scratch / "theirs"
    if options.curator_side == "stages":
        command = _pipeline(options, folder, "--engine", "nemo_curator", "--executor", options.executor)
        return Side("theirs", command, folder, folder / "curated")
    words = [sys.executable, options.curator_repo / SCRIPT, "--benchmark-results-path", folder]
    words += ["--input-manifest", options.input_manifest, "--executor", options.executor]
    words += ["--repeat-factor", options.repeat_factor]
    return Side("theirs", tuple(map(str, words)), folder, folder / "tasks.pkl")


def _pipeline(options: argparse.Namespace, folder: Path, *engine: str) -> tuple[str, ...]:
    words = [sys.executable, PIPELINE, "--benchmark-results-path", folder, "--output-path", folder / "curated", *engine]
    words += ["--input-manifest", options.input_manifest, "--repeat-factor", options.repeat_factor]
    return tuple(map(str, words))


def run_side(side: Side) -> Ended:
    """Runs it to its end in an empty folder, and reads what it left when nothing is timed any more."""
    shutil.rmtree(side.results, ignore_errors=True)
    side.results.mkdir(parents=True)
    cluster_before = cluster_cpu_seconds()
    with (side.results / "log").open("wb") as log:
        began = perf_counter()
        process = subprocess.Popen(side.command, stdout=log, stderr=subprocess.STDOUT)
        _, status, usage = os.wait4(process.pid, 0)
        seconds = perf_counter() - began
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        sys.exit(
            f"{side.name} ended with exit code {process.returncode}:\n{(side.results / 'log').read_text()[-3000:]}"
        )
    cpu_seconds = usage.ru_utime + usage.ru_stime + cluster_cpu_seconds() - cluster_before
    print(f"{side.name}: {seconds:.2f} s, {cpu_seconds:.2f} s of processors", flush=True)
    metrics: Metrics = json.loads((side.results / "metrics.json").read_text())
    counts = (metrics["is_success"], *(round(metrics[name], 6) for name in COUNTED))
    return Ended(seconds, cpu_seconds, counts, side.entries())


def cluster_cpu_seconds() -> float:
    """What the processes of this run's cluster have used so far, with those of theirs that have ended."""
    total = 0.0
    for process in _cluster_processes():
        with contextlib.suppress(psutil.Error):  # it has just ended
            total += sum(process.cpu_times()[:4])
    return total


def _cluster_processes() -> set[psutil.Process]:
    """Those that carry the mark of this run, and all they started: Ray's workers write over their environment."""
    marker = os.environ.get(RUN_MARKER)
    found: set[psutil.Process] = set()
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):  # it has just ended, or belongs to somebody else
            if marker and process.environ().get(RUN_MARKER) == marker:
                found |= {process, *process.children(recursive=True)}
    myself = psutil.Process()
    return found - {myself, *myself.children(recursive=True)}


def run_round(ours: Side, theirs: Side) -> Round:
    first, second, third, fourth = (run_side(side) for side in (ours, theirs, theirs, ours))
    return Round((first, fourth), (second, third))


def metrics_of(rounds: list[Round]) -> Metrics:
    ours = [run for one in rounds for run in one.ours]
    theirs = [run for one in rounds for run in one.theirs]
    expected = ours[0]
    differing = sum(_difference(run.entries, expected.entries) for run in (*ours, *theirs))
    _, *counted = expected.counts
    return {
        "is_success": all(run.counts == (True, *counted) for run in (*ours, *theirs)) and not differing,
        "times_as_fast": median(one.times_as_fast for one in rounds),
        "times_as_fast_min": min(one.times_as_fast for one in rounds),
        "times_as_fast_max": max(one.times_as_fast for one in rounds),
        "times_the_cpu": median(one.times_the_cpu for one in rounds),
        "our_s": median(run.seconds for run in ours),
        "their_s": median(run.seconds for run in theirs),
        "our_cpu_s": median(run.cpu_seconds for run in ours),
        "their_cpu_s": median(run.cpu_seconds for run in theirs),
        "entries_written": expected.entries.total(),
        "differing_entries": differing,
        **dict(zip(COUNTED, counted, strict=True)),
    }


def _difference(some: Entries, others: Entries) -> int:
    return (some - others).total() + (others - some).total()


def parse_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, allow_abbrev=False)
    parser.add_argument("--benchmark-results-path", type=Path, required=True)
    parser.add_argument("--scratch", type=Path, required=True, help="a folder for what is written and compared")
    parser.add_argument("--curator-side", choices=["script", "stages"], required=True)
    parser.add_argument("--curator-repo", type=Path, help="a checkout of NeMo Curator, for --curator-side script")
    parser.add_argument("--input-manifest", type=Path, help="by default the sample that the checkout has")
    parser.add_argument("--executor", choices=["xenna", "ray_data", "ray_actors"], default="ray_data", help="theirs")
    parser.add_argument("--our-executor", choices=["processes", "ray_data", "ray_actors"], default="processes")
    parser.add_argument("--repeat-factor", type=int, required=True)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    if options.curator_side == "script" and not (options.curator_repo and (options.curator_repo / SCRIPT).is_file()):
        parser.error(
            f"--curator-repo must be a checkout of NeMo Curator, which has {SCRIPT}; CURATOR_REPO_DIR names it"
        )
    if options.input_manifest is None:
        options.input_manifest = (options.curator_repo / MANIFEST).absolute()
    return options


def main() -> None:
    options = parse_options()
    ours, theirs = our_side(options), their_side(options)
    rounds = [run_round(ours, theirs) for _ in range(options.rounds)]
    metrics = metrics_of(rounds)
    params = {name: str(value) if isinstance(value, Path) else value for name, value in vars(options).items()}
    tasks = [
        {"_stage_perf": [{"stage_name": name, "process_time": run.seconds}]}
        for one in rounds
        for name, runs in zip(("ours", "theirs"), one, strict=True)
        for run in runs
    ]
    write_results(options.benchmark_results_path, params, metrics, tasks)
    print(json.dumps(metrics, indent=2))


if __name__ == "__main__":
    main()
