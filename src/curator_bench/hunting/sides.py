"""One side of a comparison: an interpreter, its variables, and what its pytest runs in which folder."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Side:
    """One side of a comparison, ready to be measured."""

    name: str
    python: str
    pytest_args: tuple[str, ...]
    folder: Path
    env: Mapping[str, str] = field(default_factory=dict)
    check_env: Mapping[str, str] = field(default_factory=dict)
    """Variables of the run that is checked for wrong imports."""
    is_null: bool = False
    """True for the second measurement of the first side: what differs from it is noise."""
