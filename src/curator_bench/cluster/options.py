"""Options of `ray start` for an entry's `ray` block, and the resources the ready cluster must have."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Mapping
from pathlib import Path

from curator_bench.measure.cgroup import read_limits
from curator_bench.values import RaySettings

_CLOSE_ENOUGH = 0.999
"""Tolerance for memory, which Ray rounds."""


def start_options(settings: RaySettings, temp_dir: Path, spill_dir: Path | None) -> list[str]:
    """Options of `ray start`. Each process chooses its own port, so that clusters starting together do not clash."""
    return [
        "--head",
        "--block",
        "--port=0",
        "--dashboard-agent-listen-port=0",
        "--min-worker-port=0",  # Ray's own choice begins at 10002, free or not a moment later
        "--max-worker-port=0",
        f"--temp-dir={temp_dir}",
        "--disable-usage-stats",
        "--log-style=record",
        "--log-color=false",
        *_services(settings),
        *_sizes(settings),
        *_spilling(settings, spill_dir),
    ]


def requested_resources(settings: RaySettings) -> dict[str, float]:
    """The resources that a ready cluster must have, by Ray's names."""
    asked = {
        "CPU": settings.num_cpus,
        "GPU": settings.num_gpus,
        "memory": settings.memory,
        "object_store_memory": object_store_bytes(settings.object_store_size),
        **settings.resources,
    }
    return {name: float(amount) for name, amount in asked.items() if amount}


def missing_resources(asked: Mapping[str, float], there: Mapping[str, float]) -> list[str]:
    return [
        f"{name}: {amount:g} asked for, {there.get(name, 0.0):g} found"
        for name, amount in asked.items()
        if there.get(name, 0.0) < amount * _CLOSE_ENOUGH
    ]


def object_store_bytes(size: float | None) -> int | None:
    """Size in bytes. A float is a fraction of the memory of this machine or container."""
    return int(_memory_bytes() * size) if isinstance(size, float) else size


def _memory_bytes() -> int:
    physical = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return min(physical, read_limits().memory_bytes or physical)


def _services(settings: RaySettings) -> list[str]:
    log_monitor = f"--include-log-monitor={str(settings.include_log_monitor).lower()}"
    if settings.include_dashboard:
        return ["--include-dashboard=true", "--dashboard-host=127.0.0.1", "--dashboard-port=0", log_monitor]
    return ["--include-dashboard=false", "--no-monitor", log_monitor]


def _sizes(settings: RaySettings) -> list[str]:
    """Round CPUs and GPUs up to whole numbers, which Ray requires. Only a fleet counts fractions."""
    sizes = {
        "--num-cpus": None if settings.num_cpus is None else math.ceil(settings.num_cpus),
        "--num-gpus": None if settings.num_gpus is None else math.ceil(settings.num_gpus),
        "--memory": settings.memory,
        "--object-store-memory": object_store_bytes(settings.object_store_size),
    }
    options = [f"{option}={size}" for option, size in sizes.items() if size is not None]
    resources = {name: math.ceil(amount) for name, amount in settings.resources.items()}
    return [*options, f"--resources={json.dumps(resources)}"] if resources else options


def _spilling(settings: RaySettings, spill_dir: Path | None) -> list[str]:
    if not settings.enable_object_spilling:
        return ['--system-config={"automatic_object_spilling_enabled": false}']
    return [f"--object-spilling-directory={spill_dir}"] if spill_dir else []
