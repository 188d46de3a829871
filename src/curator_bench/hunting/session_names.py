"""Names of the sessions in which bisecting and A/B measure: `KIND-KEY-NUMBER-…`. The key finds them again."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable


def key_of(asked: Iterable[str]) -> str:
    """Return a short key that is equal for equal questions."""
    return hashlib.sha256("\0".join(asked).encode("utf-8", "surrogateescape")).hexdigest()[:8]


def newest_number(database: str, prefix: str) -> int:
    """Return the highest number among sessions whose names begin with `prefix`, or 0."""
    from curator_bench.store.hunts import hunts_of
    from curator_bench.store.opening import to_read_if_there

    with to_read_if_there(database) as opened:
        if opened is None:
            return 0
        with opened.reading() as connection:
            names = hunts_of(connection, f"{prefix}-")
    rests = (name.removeprefix(f"{prefix}-").partition("-")[0] for name in names)
    return max((int(rest) for rest in rests if rest.isdecimal()), default=0)
