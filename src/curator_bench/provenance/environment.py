"""Facts that a run's metrics depend on: machine, limits, versions, commits. Looked up once per invocation."""

from __future__ import annotations

import os
import platform
import socket
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import Any

from curator_bench.measure.cgroup import read_limits
from curator_bench.measure.gpu_health import gpu_inventory
from curator_bench.provenance import circumstances, git
from curator_bench.provenance.machine import machine_id, online_cores, this_machine, total_memory_bytes
from curator_bench.provenance.packages import SubjectState, package_version, subject_state
from curator_bench.values import CommitPlace
from curator_bench.values.machines import MACHINE_VARIABLE

__all__ = ["SCHEMA_VERSION", "Provenance", "boot_id", "machine_id"]

SCHEMA_VERSION = 1


class Provenance:
    """Provenance of the runs of one invocation. Each fact is looked up once, on first use."""

    def __init__(self, directory: Path, environ: Mapping[str, str] | None = None, machine: str | None = None) -> None:
        """Set the directory, inside the checkout whose commit is the session's; `machine` names the machine's kind."""
        self._directory = directory
        self._named = machine
        self._environ = os.environ if environ is None else environ
        self._subjects: dict[str, SubjectState] = {}
        self._circumstances: dict[str, dict[str, dict[str, str]]] = {}

    @cached_property
    def checkout(self) -> git.GitState | None:
        """Checkout of the session; None outside of one."""
        return git.describe(self._directory)

    @cached_property
    def commit_place(self) -> CommitPlace | None:
        """Place of the session's commit in the order of commits; None if it is unknown."""
        return git.commit_place(self._directory, self.checkout.branch) if self.checkout else None

    @property
    def machine_id(self) -> str:
        """The name of this machine's kind, or a short id of what decides its speed."""
        return str(self._machine["machine_id"])

    @cached_property
    def _machine(self) -> dict[str, Any]:
        facts = _machine_facts()
        named = self._named or self._environ.get(MACHINE_VARIABLE)
        return {**facts, "machine_id": named} if named else facts

    def subject(self, package: str) -> SubjectState:
        """Look up a package under test as installed here."""
        if package not in self._subjects:
            self._subjects[package] = subject_state(package)
        return self._subjects[package]

    def circumstances(self, python: str) -> dict[str, dict[str, str]]:
        """Facts by kind of what runs here are measured with: the machine, and the packages of this Python."""
        if python not in self._circumstances:
            version, packages = circumstances.python_facts(python) or ("", None)
            machine = self._machine_facts | ({"python": version} if version else {})
            self._circumstances[python] = {"machine": machine, **({} if packages is None else {"packages": packages})}
        return self._circumstances[python]

    @cached_property
    def variables(self) -> dict[str, str]:
        """Names of our variables with keyed hashes of their values."""
        return circumstances.environment_facts(self._environ, circumstances.hash_key(self._environ))

    @cached_property
    def _machine_facts(self) -> dict[str, str]:
        return circumstances.machine_facts()

    def environment(self, subjects: Sequence[str]) -> dict[str, Any]:
        """Content of `env/HOST.json`."""
        state = self.checkout
        return {
            "schema_version": SCHEMA_VERSION,
            "captured_at": datetime.now(UTC).isoformat(timespec="seconds"),
            **self._machine,
            **_software_facts(),
            "cuda_visible_devices": self._environ.get("CUDA_VISIBLE_DEVICES"),
            "image_digest": self._environ.get("IMAGE_DIGEST"),
            "container_host": self._environ.get("HOST_HOSTNAME"),
            "session_commit": state and {"commit": state.commit, "branch": state.branch, "dirty": state.dirty},
            "subjects": {name: asdict(self.subject(name)) for name in subjects},
        }


def _machine_facts() -> dict[str, Any]:
    limits, gpus = read_limits(), gpu_inventory()
    machine = this_machine(limits, gpus)
    return {
        "host": socket.gethostname(),
        "machine_id": machine.id,
        "boot_id": boot_id(),
        "cpu_model": machine.cpu_model,
        "cores": online_cores(),
        "memory_bytes": total_memory_bytes(),
        "cgroup": asdict(limits),
        "shm_bytes": _size_of(Path("/dev/shm")),
        "gpus": list(gpus.models),
        "gpu_driver": gpus.driver,
        "load_average": _load_average(),
    }


def _software_facts() -> dict[str, Any]:
    return {
        "kernel": platform.release(),
        "platform": platform.platform(),
        "python": platform.python_version(),
        "python_implementation": platform.python_implementation(),
        "ray": package_version("ray"),
    }


def boot_id() -> str:
    """Id that changes at every boot. Pids are only comparable within one boot."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        import psutil

        return f"booted-{psutil.boot_time():.0f}"


def _size_of(directory: Path) -> int | None:
    try:
        system = os.statvfs(directory)
    except OSError:
        return None
    return system.f_blocks * system.f_frsize


def _load_average() -> list[float] | None:
    try:
        return [round(load, 2) for load in os.getloadavg()]
    except OSError:
        return None
