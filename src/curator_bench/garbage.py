"""The search for unused cycles of objects, kept out of the way of a session's start."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def left_alone() -> Iterator[None]:
    """Search for none meanwhile. Imports make many objects, which stay: the search took a sixth of a short session."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def keep_what_is_there() -> None:
    """Leave the objects of now out of every later search: pytest makes full ones at its end, each over all of them."""
    gc.freeze()
