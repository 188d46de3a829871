"""Ids of kinds of machines: a name that somebody gave, or one that is computed from the hardware."""

from __future__ import annotations

import re

MACHINE_VARIABLE = "CURATOR_BENCH_MACHINE"
"""The environment variable that names the kind of a machine."""
_COMPUTED = re.compile(r"[0-9a-f]{12}")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,39}")


def is_machine_name(text: str) -> bool:
    """True if a text can name a kind of machine: it is short, plain, and no computed id."""
    return bool(_NAME.fullmatch(text)) and not _COMPUTED.fullmatch(text)
