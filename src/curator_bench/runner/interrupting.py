"""Holds Ctrl-C back from the moment an item's run has a row until the item has ended."""

from __future__ import annotations

import pytest

from curator_bench import interrupts

_HELD = pytest.StashKey[bool]()
"""True while an item holds Ctrl-C back."""


def hold_until_the_end(item: pytest.Item) -> None:
    """Hold Ctrl-C back until the row is complete. The run itself may still be stopped."""
    if _HELD not in item.stash:
        item.stash[_HELD] = True
        interrupts.hold()


def let_go(item: pytest.Item) -> None:
    if item.stash.get(_HELD, False):
        del item.stash[_HELD]
        interrupts.release()
