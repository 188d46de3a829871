"""The search for unused cycles of objects, kept out of the way of a session's start and of a large collection."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def left_alone() -> Iterator[None]:
    """Search for none meanwhile. What makes many objects that stay, such as imports, is searched again and again."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def keep_what_is_there() -> None:
    """Leave the objects of now out of every later search: pytest makes full ones at its end, each over all of them.

    For those who have switched the search off, nothing changes.
    """
    if gc.isenabled():
        gc.freeze()
