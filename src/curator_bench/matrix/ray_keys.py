"""The keys of a `ray` block given in Python. Their meaning and the messages of mistakes are those of a matrix."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from curator_bench.errors import BenchError
from curator_bench.matrix.schema import RayBlock
from curator_bench.matrix.tree import Block
from curator_bench.matrix.validation import checked
from curator_bench.values import RaySettings


def ray_settings(below: RaySettings, keys: Mapping[str, Any]) -> RaySettings:
    """Apply these keys over the settings. Raises BenchError with a line for each mistake."""
    tree = Block()
    tree.update(keys)
    block, problems = checked(RayBlock, tree)
    if block is None:
        raise BenchError("\n".join(f"{'.'.join(map(str, path))}: {problem}" for path, problem in problems.items()))
    said: dict[str, Any] = {key: getattr(block, key) for key in keys}
    if said.get("object_store_size") == "default":
        said["object_store_size"] = None
    return replace(below, **said)
