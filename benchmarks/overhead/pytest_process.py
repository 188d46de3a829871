"""pytest in a process and a folder of its own, and what it took; what the scripts beside this file share."""

from __future__ import annotations

import argparse
import json
import os
import pickle
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

PLUGIN = "curator_bench"
# pytest-timeout comes with our plugin, so it is part of both sides of each comparison. Others would only add noise.
STAYS_ON = (PLUGIN, "timeout")


@dataclass(frozen=True, slots=True)
class Took:
    """What one process took; its standard output is kept."""

    wall_s: float
    cpu_s: float
    """Steadier than the time on the clock where other things run at the same time."""
    peak_memory_mb: float
    output: str


def with_plugin() -> list[str]:
    """The arguments that have our plugin on: none, where it is installed."""
    installed = any(found.name == PLUGIN for found in entry_points(group="pytest11"))
    return [] if installed else ["-p", f"{PLUGIN}.plugin"]


def without_plugin() -> list[str]:
    return ["-p", f"no:{PLUGIN}"]


def make_project(folder: Path) -> Path:
    """A folder that pytest takes for a project, with no settings but its own."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "pytest.ini").write_text("[pytest]\n")
    return folder


def run_pytest(arguments: Sequence[str], project: Path) -> Took:
    """One pytest process in this project, without the plugins of others."""
    others = [found.name for found in entry_points(group="pytest11") if found.name not in STAYS_ON]
    silenced = [word for name in sorted(others) for word in ("-p", f"no:{name}")]
    return run([sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *silenced, *arguments], project)


def run(command: Sequence[str], folder: Path) -> Took:
    """One process, from its start until it is gone."""
    log = folder / "output.txt"
    with log.open("wb") as output:
        start = time.perf_counter()
        process = subprocess.Popen(command, cwd=folder, env=_environment(folder), stdout=output, stderr=output)
        _, status, usage = os.wait4(process.pid, 0)
        wall_s = time.perf_counter() - start
    process.returncode = os.waitstatus_to_exitcode(status)
    text = log.read_text("utf-8", "replace")
    if process.returncode != 0:
        sys.exit(f"{' '.join(command)} ended with exit code {process.returncode}:\n{text[-4000:]}")
    bytes_in_unit = 1 if sys.platform == "darwin" else 1024
    return Took(wall_s, usage.ru_utime + usage.ru_stime, usage.ru_maxrss * bytes_in_unit / 2**20, text)


def _environment(folder: Path) -> dict[str, str]:
    """Ours without what would change pytest, and with a place for compiled modules, as installed packages have."""
    env = {name: value for name, value in os.environ.items() if not name.startswith(("PYTEST_", "COV_"))}
    env.pop("PYTHONDONTWRITEBYTECODE", None)
    env["PYTHONPYCACHEPREFIX"] = str(folder.parent / "compiled")
    return env


def parser_with(description: str | None) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--scratch", type=Path, required=True, help="a folder to work in")
    parser.add_argument("--benchmark-results-path", type=Path, required=True)
    return parser


def write_results(options: argparse.Namespace, metrics: Mapping[str, Any]) -> None:
    """The three files of the script contract."""
    folder: Path = options.benchmark_results_path
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "params.json").write_text(json.dumps(vars(options), indent=2, default=str))
    (folder / "metrics.json").write_text(json.dumps({"is_success": True, **metrics}, indent=2))
    (folder / "tasks.pkl").write_bytes(pickle.dumps([]))
    print(json.dumps(metrics, indent=2))
