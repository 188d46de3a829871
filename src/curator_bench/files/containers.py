"""Paths that have another name in a container than on its host."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

DOCKER_MARK = Path("/.dockerenv")
"""Docker creates this file in every container, also where nothing is mounted under another name."""
_SWITCH = "CURATOR_BENCH_IN_CONTAINER"


def is_mounted(container_path: str, variables: Mapping[str, str]) -> bool:
    """True if a path of the host is `container_path` here.

    Our image says so with a variable. In other containers the path must exist: CI jobs also run in containers, but see
    the paths of the host.
    """
    said = variables.get(_SWITCH)
    if said:
        return said == "1"
    return DOCKER_MARK.exists() and os.path.exists(container_path)
