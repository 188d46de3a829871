"""Takes secrets out of whatever shape of values is about to be written."""

from __future__ import annotations

from typing import Any

from curator_bench.values import Mask


def masked(value: Any, mask: Mask) -> Any:
    """The value with every text in it masked."""
    if isinstance(value, str):
        return mask.hide(value)
    if isinstance(value, dict):
        return {mask.hide(str(key)): masked(item, mask) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [masked(item, mask) for item in value]
    return value
