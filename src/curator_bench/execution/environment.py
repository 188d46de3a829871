"""The environment a script sees: the same everywhere. Ours is never written; a child's is a value that is passed on."""

from __future__ import annotations

import os
from collections.abc import Mapping

from curator_bench.cluster.environment import ADDRESS_AND_TOKEN, without_pytest, without_ray
from curator_bench.measure.processes import Mark


def script_environment(
    own: Mapping[str, str], cluster: Mapping[str, str], marker: str, base: Mapping[str, str] | None = None
) -> dict[str, str]:
    """Ours without any RAY_*, then what the entry sets, then what leads into its cluster: that no entry can change.

    It does not tell that pytest is there either: some libraries behave differently under test.
    """
    env = without_pytest(without_ray(os.environ if base is None else base))
    env.update(own)
    if cluster:
        env = {name: value for name, value in env.items() if name not in ADDRESS_AND_TOKEN}
        env.update(cluster)
    env.update(Mark(marker).environment())
    return env
