"""Items that pytest-repeat makes of one test (`--count`): each runs the same benchmark, under a node id of its own.

pytest-repeat adds a parameter, whose id comes last: `FILE::ENTRY[2-3]`, or with axes `FILE::ENTRY[value-2-3]`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import TypeVar

import pytest

STEP = "__pytest_repeat_step_number"
"""The parameter of pytest-repeat. It is no parameter of a benchmark."""
_WITH_STEP = re.compile(r"(.*?)(\[|-)[0-9]+-[0-9]+\]", re.DOTALL)

T = TypeVar("T")


def own_nodeid(item: pytest.Item) -> str:
    """Return the node id of an item as it is without pytest-repeat."""
    params = item.callspec.params if hasattr(item, "callspec") else {}
    return _without_step(item.nodeid) if STEP in params else item.nodeid


def _without_step(nodeid: str) -> str:
    found = _WITH_STEP.fullmatch(nodeid)
    return f"{found[1]}{']' if found[2] == '-' else ''}" if found else nodeid


class ByNodeId(Mapping[str, T]):
    """Values by the node id of an item, which are found for each of the items that pytest-repeat makes of it."""

    def __init__(self, values: Mapping[str, T]) -> None:
        self._values = values

    def __getitem__(self, nodeid: str) -> T:
        return self._values[nodeid if nodeid in self._values else _without_step(nodeid)]

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)
