"""The interpreter of a cluster: the script's if it has Ray, else ours."""

from __future__ import annotations

import importlib.util
import shutil
import subprocess
import sys
from collections.abc import Mapping

from curator_bench.errors import ClusterError
from curator_bench.measure.programs import question

_HAS_RAY = "import importlib.util, sys; sys.exit(importlib.util.find_spec('ray') is None)"
_TIMEOUT_S = 30


def interpreter_with_ray(python: str, env: Mapping[str, str]) -> str:
    found = shutil.which(python, path=env.get("PATH"))
    if found and found != sys.executable and _has_ray(found, env):
        return found
    if importlib.util.find_spec("ray"):
        return sys.executable
    raise ClusterError(f"Ray is installed neither for {python} nor for {sys.executable}: pip install ray")


def _has_ray(python: str, env: Mapping[str, str]) -> bool:
    try:
        outcome = subprocess.run(
            question(python, _HAS_RAY), env=dict(env), capture_output=True, timeout=_TIMEOUT_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return False
    return outcome.returncode == 0
