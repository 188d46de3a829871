"""Decide which of two records of the same run or row wins, in whichever order the databases come.

Two databases hold the same run if one was copied while the run was under way, or if one marked it interrupted.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from curator_bench.store.running import RUNNING
from curator_bench.values import Verdict

_OWN_TO_EACH = frozenset({"id", "session", "invocation"})
"""Columns that each database numbers for itself."""
_STATES = {RUNNING: 0, str(Verdict.INTERRUPTED): 1}
_ENDED = 2
_NEVER = datetime.min.replace(tzinfo=UTC)


def state_of(run: Mapping[str, Any]) -> tuple[int, datetime]:
    """Sort key of a run's progress; the greater one wins.

    An ended run outranks one marked interrupted, which outranks one under way. Between two equal states the later one
    wins.
    """
    return _STATES.get(run["verdict"], _ENDED), run["end"] or run["heartbeat_at"] or _NEVER


def says_more(row: Mapping[Any, Any], other: Mapping[Any, Any]) -> bool:
    """True if `row` replaces `other`, given two rows with equal progress. The row with fewer gaps wins."""
    return row != other and _content(row) > _content(other)


def _content(row: Mapping[Any, Any]) -> tuple[int, str]:
    """Sort key by number of gaps. The text breaks ties, so that the same row always wins."""
    gaps = sum(value is None for value in row.values())
    return -gaps, repr(sorted((name, value) for name, value in row.items() if name not in _OWN_TO_EACH))
