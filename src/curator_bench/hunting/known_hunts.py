"""The names of the sessions in which hunts measure: `KIND-KEY-NUMBER-…`. The same hunt is found again by its key."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable


def key_of(asked: Iterable[str]) -> str:
    """The same for the same question."""
    return hashlib.sha256("\0".join(asked).encode("utf-8", "surrogateescape")).hexdigest()[:8]


def newest_number(database: str, prefix: str) -> int:
    """Of all hunts whose sessions begin with `prefix` the newest one's number; 0 where there is none."""
    from curator_bench.store.hunts import hunts_of
    from curator_bench.store.opening import to_read_if_there

    with to_read_if_there(database) as opened:
        if opened is None:
            return 0
        with opened.reading() as connection:
            names = hunts_of(connection, f"{prefix}-")
    rests = (name.removeprefix(f"{prefix}-").partition("-")[0] for name in names)
    return max((int(rest) for rest in rests if rest.isdecimal()), default=0)
