"""The parts of the machine that decide speed, and a short id made of them."""

from __future__ import annotations

import hashlib
import math
import os
import platform
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from curator_bench.measure.cgroup import CgroupLimits, count_cpus, read_limits
from curator_bench.measure.gpu_health import GpuInventory, gpu_inventory
from curator_bench.values.machines import MACHINE_VARIABLE

_MODEL_NAME = re.compile(r"^(?:model name|Model|cpu model)\s*:\s*(.+?)\s*$", re.MULTILINE)
_ARM_PART = re.compile(r"^CPU (?:implementer|part)\s*:\s*(\S+)", re.MULTILINE)
_MICROCODE = re.compile(r"^microcode\s*:\s*(\S+)", re.MULTILINE)
_ID_LENGTH = 12


@dataclass(frozen=True, slots=True)
class Machine:
    """The parts of the machine that decide a run's speed; in a container, those it was given."""

    cpu_model: str
    cores: int
    memory_bytes: int
    gpu_models: tuple[str, ...]

    @property
    def id(self) -> str:
        """Short id, equal after each boot and in any environment."""
        parts = (self.cpu_model, self.cores, rounded_up(self.memory_bytes), *sorted(self.gpu_models))
        return hashlib.sha256("\n".join(map(str, parts)).encode()).hexdigest()[:_ID_LENGTH]


def machine_id() -> str:
    """The name of this machine's kind, or a short id of its CPU model, cores, memory and GPU models."""
    return os.environ.get(MACHINE_VARIABLE) or this_machine(read_limits(), gpu_inventory()).id


def this_machine(limits: CgroupLimits, gpus: GpuInventory) -> Machine:
    """Describe this machine within the limits of its control groups."""
    memory_bytes = total_memory_bytes()
    return Machine(
        cpu_model=cpu_model(),
        cores=_cores(limits),
        memory_bytes=min(memory_bytes, limits.memory_bytes or memory_bytes),
        gpu_models=gpus.models,
    )


def rounded_up(memory_bytes: int) -> int:
    """Round memory up to an eighth of its power of two.

    The kernel keeps a little of the nominal size, different at each boot. Rounding up gives back the nominal size (16,
    24, 96, 768 GiB).
    """
    step = max(1, (1 << memory_bytes.bit_length()) // 16)
    return -(-memory_bytes // step) * step


def online_cores() -> int:
    """Number of online cores. An environment variable can change os.cpu_count()."""
    return os.sysconf("SC_NPROCESSORS_ONLN")


def total_memory_bytes() -> int:
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def cpu_model() -> str:
    """CPU model as the kernel names it; on ARM, the numbers of vendor and part."""
    if sys.platform == "darwin":
        return _darwin_cpu_model() or platform.machine()
    return cpu_model_in(_cpu_information()) or platform.machine()


def cpu_microcode() -> str:
    """Revision of the microcode of the first core; empty where the kernel does not tell it."""
    found = _MICROCODE.search(_cpu_information())
    return found[1] if found else ""


def cpu_model_in(information: str) -> str:
    """CPU model in a text like /proc/cpuinfo."""
    names = dict.fromkeys(_MODEL_NAME.findall(information)) or dict.fromkeys(_ARM_PART.findall(information))
    return " ".join(names)


def _cores(limits: CgroupLimits) -> int:
    allowed = [online_cores()]
    if limits.cpus is not None:
        allowed.append(math.ceil(limits.cpus))
    if limits.cpuset is not None:
        allowed.append(count_cpus(limits.cpuset))
    return max(1, min(allowed))


def _cpu_information() -> str:
    try:
        return Path("/proc/cpuinfo").read_text(errors="replace")
    except OSError:
        return ""


def _darwin_cpu_model() -> str:
    command = ["sysctl", "-n", "machdep.cpu.brand_string"]
    try:
        done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=5, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.strip()
