"""The circumstances of a run, beyond its definition: packages, the machine and its system, variables.

The values of variables are never kept, only keyed hashes of them.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import logging
import os
import platform
import re
import secrets
import shutil
import subprocess
import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from curator_bench.files import safe_files
from curator_bench.measure.cgroup import CgroupLimits, read_limits
from curator_bench.measure.gpu_health import GpuInventory, gpu_inventory
from curator_bench.measure.programs import question
from curator_bench.provenance.machine import cpu_microcode, online_cores, rounded_up, this_machine
from curator_bench.provenance.packages import installed

logger = logging.getLogger(__name__)

KEY_VARIABLE = "CURATOR_BENCH_HASH_KEY"
_KEY_BYTES = 32
_LONGEST_KEY = 1024
_HASH_LENGTH = 16
_PATIENCE_S = 60.0
_ASKED = """
import json, platform, sys
from importlib import metadata
versions = {}
for one in metadata.distributions():
    name = one.metadata["Name"]
    if name:
        versions.setdefault(name, one.version)
json.dump({"python": platform.python_version(), "packages": versions}, sys.stdout)
"""
CPU = Path("/sys/devices/system/cpu")
# They differ between any two sessions, terminals or jobs, and no benchmark depends on them.
_OF_ONE_SESSION = re.compile(
    r"_|SHLVL|PWD|OLDPWD|COLUMNS|LINES|WINDOWID|STY|TMUX.*|TERM_SESSION_ID|XDG_SESSION_.*|XDG_RUNTIME_DIR|SSH_.*"
    r"|DBUS_.*|DISPLAY|INVOCATION_ID|JOURNAL_STREAM|MAIL|HOSTNAME|GPG_.*|COV_CORE_.*|PYTEST_.*"
    r"|GITHUB_.*|RUNNER_.*|ACTIONS_.*|CI_.*|BUILD_.*|BUILDKITE_.*|CIRCLE_.*|JENKINS_.*|SLURM_JOB.*|CURATOR_BENCH_.*"
)


def machine_facts() -> dict[str, str]:
    """Describe the machine and its system: the facts that decide speed, and those that may change at a boot."""
    limits, gpus = read_limits(), gpu_inventory()
    return {name: text for name, text in _machine(limits, gpus).items() if text}


def _machine(limits: CgroupLimits, gpus: GpuInventory) -> dict[str, str]:
    machine = this_machine(limits, gpus)
    return {
        "cpu_model": machine.cpu_model,
        "microcode": cpu_microcode(),
        "cores": str(online_cores()),
        "cores allowed": str(machine.cores),
        "memory": f"{rounded_up(machine.memory_bytes) / 2**30:.4g} GiB",
        "cpu governor": _first_line(CPU / "cpu0/cpufreq/scaling_governor"),
        "turbo": _switch(CPU / "cpufreq/boost") or _switch(CPU / "intel_pstate/no_turbo", on="0"),
        "hyper-threading": _switch(CPU / "smt/active"),
        "huge pages": _chosen(Path("/sys/kernel/mm/transparent_hugepage/enabled")),
        "kernel": platform.release(),
        "libc": " ".join(platform.libc_ver()).strip(),
        "gpus": ", ".join(gpus.models),
        "gpu_driver": gpus.driver or "",
        "cuda": gpus.cuda or "",
    }


def python_facts(python: str) -> tuple[str, dict[str, str]] | None:
    """Return the version of a Python and the versions of all its packages; None if it does not answer."""
    if _is_this(python):
        return platform.python_version(), installed()
    command = question(python, _ASKED)
    try:
        done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, timeout=_PATIENCE_S, check=True)
        said = json.loads(done.stdout)
        return str(said["python"]), {str(name): str(version) for name, version in said["packages"].items()}
    except (OSError, subprocess.SubprocessError, ValueError, LookupError, AttributeError, TypeError) as failure:
        logger.debug("%s does not list its packages: %s", python, failure)
        return None


def environment_facts(variables: Mapping[str, str], key: bytes) -> dict[str, str]:
    """Return the names of variables with keyed hashes of their values.

    Each hash names its key, so that values hashed with different keys are not taken for different.
    """
    named = hashlib.sha256(key).hexdigest()[:_HASH_LENGTH]
    return {name: f"{named}:{_hash(value, key)}" for name, value in variables.items() if not _is_of_one_session(name)}


def hash_key(environ: Mapping[str, str]) -> bytes:
    """Return the key of this user: that of the variable, or a random one that is kept in the user's state folder."""
    if said := environ.get(KEY_VARIABLE):
        return hashlib.sha256(said.encode()).digest()
    folder = Path(environ.get("XDG_STATE_HOME") or Path(environ.get("HOME") or "/", ".local", "state"))
    file = folder / "curator-bench" / "hash-key"
    try:
        return _kept_key(file)
    except OSError as failure:
        logger.debug("%s cannot be used, so hashes of variables cannot be compared: %s", file, failure)
        return secrets.token_bytes(_KEY_BYTES)


def _kept_key(file: Path) -> bytes:
    """Read the key, or make it. If several processes make it at once, the first one's is used."""
    with suppress(FileExistsError):
        file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        safe_files.create_exclusively(file, secrets.token_hex(_KEY_BYTES), mode=0o600)
    return safe_files.read_bytes(file, most_bytes=_LONGEST_KEY, ours=True)


def _hash(value: str, key: bytes) -> str:
    return hmac.new(key, value.encode("utf-8", "surrogateescape"), hashlib.sha256).hexdigest()[:_HASH_LENGTH]


def _is_of_one_session(name: str) -> bool:
    return _OF_ONE_SESSION.fullmatch(name) is not None


def _is_this(python: str) -> bool:
    """True if this is our interpreter, by its path: a virtual environment links to the Python it was made with."""
    found = shutil.which(python)
    return found is not None and os.path.abspath(found) == os.path.abspath(sys.executable)


def _first_line(file: Path) -> str:
    try:
        return file.read_text().strip().partition("\n")[0]
    except OSError:
        return ""


def _switch(file: Path, on: str = "1") -> str:
    """Return "on" or "off" for a switch of the kernel; empty where there is none."""
    said = _first_line(file)
    return said and ("on" if said == on else "off")


def _chosen(file: Path) -> str:
    """Return the word in brackets, which is how the kernel marks the one that is chosen."""
    return _first_line(file).partition("[")[2].partition("]")[0]
