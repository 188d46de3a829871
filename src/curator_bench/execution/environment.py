"""The environment of a script: the same everywhere. Our own environment is never changed."""

from __future__ import annotations

import os
from collections.abc import Mapping

from curator_bench.cluster.environment import ADDRESS_AND_TOKEN, without_pytest, without_ray
from curator_bench.files.search_path import path_with
from curator_bench.measure.processes import Mark

_BY_DEFAULT = {"NEMO_CURATOR_RAY_DATA_DIAGNOSTICS": "1"}
"""Set by NeMo Curator's own runner for every script: Ray Data's operators are then among the metrics of its tasks."""


def script_environment(
    own: Mapping[str, str],
    cluster: Mapping[str, str],
    marker: str,
    base: Mapping[str, str] | None = None,
    *,
    python: str = "",
) -> dict[str, str]:
    """Build a script's environment: ours without RAY_*, then the entry's, then the cluster's, which the entry cannot
    change. PATH ends with the folder of the interpreter, which has the programs of its packages.

    Variables of pytest are removed too, because some libraries behave differently under test.
    """
    env = {**_BY_DEFAULT, **without_pytest(without_ray(os.environ if base is None else base))}
    env.update(own)
    if cluster:
        env = {name: value for name, value in env.items() if name not in ADDRESS_AND_TOKEN}
        env.update(cluster)
    env["PATH"] = path_with(env.get("PATH", os.defpath), python)
    env.update(Mark(marker).environment())
    return env
