"""Environments of Ray's processes and of their clients. Of the user's RAY_* variables they get a few harmless ones."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from curator_bench.measure.processes import RUN_VARIABLE, Mark

CLUSTER_VARIABLE = "CURATOR_BENCH_CLUSTER"
_ADDED_BY_PYTEST = (
    *("PYTEST_CURRENT_TEST", "PYTEST_VERSION", "PYTEST_XDIST_", "CURATOR_BENCH_HUNT_DB"),
    *("COVERAGE_PROCESS_CONFIG", "COV_CORE_"),  # of pytest-cov: a traced script would be slower than its history
)
_IN_A_WORKER = "RAY_RAYLET_PID"
_ADDED_BY_A_WORKER = frozenset({"OMP_NUM_THREADS", "PYTHONBREAKPOINT", "SPT_NOENV"})
ADDRESS_AND_TOKEN = frozenset({"RAY_ADDRESS", "RAY_AUTH_MODE", "RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH"})
_USERS_OWN_AUTHENTICATION = "RAY_AUTH_"
_HARMLESS = ("RAY_MAX_LIMIT_", "RAY_DEDUP_LOGS", "RAY_COLOR_PREFIX", "RAY_BACKEND_LOG_LEVEL", "RAY_TQDM")
"""Beginnings of names that reach clusters and scripts. They name no address, port, token or folder."""


def without_ray(env: Mapping[str, str]) -> dict[str, str]:
    """Copy the environment without RAY_* variables that could do harm, our marks, and what Ray adds to a worker's."""
    dropped = {CLUSTER_VARIABLE, RUN_VARIABLE} | (_ADDED_BY_A_WORKER if _IN_A_WORKER in env else frozenset())
    return {name: value for name, value in env.items() if _may_pass(name) and name not in dropped}


def _may_pass(name: str) -> bool:
    return not name.startswith("RAY_") or name.startswith(_HARMLESS)


def head_environment(
    env: Mapping[str, str], entry_env: Mapping[str, str], token: str, marks: tuple[Mark, ...]
) -> dict[str, str]:
    """Build the environment of a cluster's processes. RAY_AUTH_TOKEN takes precedence over token files."""
    environment = without_ray(env)
    environment.update({name: value for name, value in entry_env.items() if name not in ADDRESS_AND_TOKEN})
    environment.update(authentication(token))
    environment["RAY_USAGE_STATS_ENABLED"] = "0"
    for mark in marks:
        environment.update(mark.environment())
    return environment


def authentication(token: str) -> dict[str, str]:
    return {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": token}


def users_own_authentication(env: Mapping[str, str]) -> dict[str, str]:
    """Variables that let Ray use the user's token. With an explicit address, Ray uses no token by default."""
    own = {name: value for name, value in env.items() if name.startswith(_USERS_OWN_AUTHENTICATION)}
    token_file = Path(env.get("HOME", ""), ".ray", "auth_token")
    if own.keys() & {"RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH"} or token_file.is_file():
        return {"RAY_AUTH_MODE": "token", **own}
    return own


def is_of_a_worker(env: Mapping[str, str]) -> bool:
    """True if the environment is that of a worker of Ray. Its token is that of the worker's cluster."""
    return _IN_A_WORKER in env


def without_pytest(env: Mapping[str, str]) -> dict[str, str]:
    """Copy the environment without the variables that pytest, or a bisect for its pytest, sets."""
    return {name: value for name, value in env.items() if not name.startswith(_ADDED_BY_PYTEST)}
