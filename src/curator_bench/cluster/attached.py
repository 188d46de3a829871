"""The user's running cluster, reached with the user's own token. It is neither started nor stopped."""

from __future__ import annotations

import secrets
from pathlib import Path
from typing import Any

from curator_bench import interrupts
from curator_bench.cluster.environment import CLUSTER_VARIABLE, users_own_authentication, without_ray
from curator_bench.cluster.health import takes_connections
from curator_bench.cluster.interpreters import interpreter_with_ray
from curator_bench.cluster.listeners import other_user_at
from curator_bench.cluster.logs import last_lines
from curator_bench.cluster.model import Cluster, ClusterRequest
from curator_bench.errors import ClusterError
from curator_bench.files.planted import TRUSTED_VARIABLE
from curator_bench.measure.processes import Mark, end_processes
from curator_bench.measure.programs import Command, Program, ProgramFailed

_ANSWERS_WITHIN_S = 30.0
_AUTO, _FIND = "auto", "find"


class AttachedCluster:
    """Provider of the user's cluster. It checks that the cluster answers and accepts the token."""

    def start(self, request: ClusterRequest) -> Cluster:
        address, said = request.settings.address or "", request.address_came_from
        env = {"RAY_ADDRESS": address, **users_own_authentication({**request.env, **request.entry_env})}
        if not address:
            raise ClusterError(f"{said} is empty")
        if address == _AUTO:
            address = env["RAY_ADDRESS"] = _found(request)
        _refuse_other_users(address, said)
        if not takes_connections(address):
            raise ClusterError(f"{said} {address}: nothing accepts connections there (is the cluster running?)")
        return _look(request, env)

    def stop(self, cluster: Cluster) -> None:
        """No-op: the cluster is the user's."""

    def close(self) -> None:
        """No-op: the cluster is the user's."""


def _refuse_other_users(address: str, said: str) -> None:
    """Raise ClusterError before our token is sent to another user, who took the port or the note of Ray's address."""
    uid = other_user_at(address)
    if uid is not None:
        raise ClusterError(
            f"{said} {address}: another user (uid {uid}) listens there, and would get your token and run what they like"
            f" as you; if you trust them: {TRUSTED_VARIABLE}={uid}"
        )


def _found(request: ClusterRequest) -> str:
    """Ask Ray for the address that it calls "auto", in a process without a token."""
    base = without_ray(request.env)
    facts = _ask(interpreter_with_ray(request.python, base), {**base, "RAY_ADDRESS": _AUTO}, request, _FIND)
    if "refused" in facts:
        raise ClusterError(f"{request.address_came_from} {_AUTO}: cannot be used: {facts['refused']}")
    return str(facts["address"])


def _look(request: ClusterRequest, env: dict[str, str]) -> Cluster:
    base = without_ray(request.env)
    python = interpreter_with_ray(request.python, base)
    facts = _ask(python, {**base, **env}, request)
    if "refused" in facts:
        raise ClusterError(f"{request.address_came_from} {env['RAY_ADDRESS']}: cannot be used: {facts['refused']}")
    return Cluster(
        address=facts["address"],
        env={**env, "RAY_ADDRESS": facts["address"]},
        resources=facts["resources"],
        startup_log=request.log_path,
        python=python,
        ray_version=facts["ray_version"],
    )


def _ask(python: str, env: dict[str, str], request: ClusterRequest, *words: str) -> dict[str, Any]:
    mark = Mark(secrets.token_hex(16), CLUSTER_VARIABLE)
    environment = {**env, **Mark(request.marker).environment(), **mark.environment()}
    child = None
    try:
        program = Path(__file__).with_name("probe_program.py")
        child = Program(Command(python, program, environment, words, log_path=request.log_path, own_mark=mark.value))
        return child.answer(_ANSWERS_WITHIN_S)
    except ProgramFailed as failure:
        said = "\n".join(f"    {line}" for line in last_lines(request.log_path, None))
        raise ClusterError(
            f"{request.address_came_from} {env['RAY_ADDRESS']}: asking for its resources failed: {failure}\n{said}"
        ) from None
    finally:
        with interrupts.held():
            if not end_processes(mark, child.roots if child else (), grace_s=0) and child:
                child.end()
