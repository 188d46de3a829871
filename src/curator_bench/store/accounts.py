"""Two accounts of the same thing, from two databases: which of them counts, whichever database comes first.

Two databases hold the same run when one was copied while it was under way, or when one took it for interrupted.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from curator_bench.store.running import RUNNING
from curator_bench.values import Verdict

_OWN_TO_EACH = frozenset({"id", "session", "invocation"})
"""Numbers that each database gives by itself."""
_STATES = {RUNNING: 0, str(Verdict.INTERRUPTED): 1}
_ENDED = 2
_NEVER = datetime.min.replace(tzinfo=UTC)


def state_of(run: Mapping[str, Any]) -> tuple[int, datetime]:
    """How far a run had come: the greater is all that counts. Ended goes before taken for interrupted, and that before
    under way; and of two the later."""
    return _STATES.get(run["verdict"], _ENDED), run["end"] or run["heartbeat_at"] or _NEVER


def says_more(row: Mapping[Any, Any], other: Mapping[Any, Any]) -> bool:
    """Whether `row` counts and not `other`, of two that came equally far: the one with fewer gaps."""
    return row != other and _content(row) > _content(other)


def _content(row: Mapping[Any, Any]) -> tuple[int, str]:
    """Of two that say equally much it does not matter which counts, as long as it is always the same one."""
    gaps = sum(value is None for value in row.values())
    return -gaps, repr(sorted((name, value) for name, value in row.items() if name not in _OWN_TO_EACH))
