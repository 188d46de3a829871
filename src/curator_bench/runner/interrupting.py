"""An item holds Ctrl-C from the moment its run has a row until it has ended."""

from __future__ import annotations

import pytest

from curator_bench import interrupts

_HELD = pytest.StashKey[bool]()
"""Set where an item holds Ctrl-C until it has ended."""


def hold_until_the_end(item: pytest.Item) -> None:
    """What has a row is judged and written before Ctrl-C takes effect; the run itself may be stopped."""
    if _HELD not in item.stash:
        item.stash[_HELD] = True
        interrupts.hold()


def let_go(item: pytest.Item) -> None:
    if item.stash.get(_HELD, False):
        del item.stash[_HELD]
        interrupts.release()
