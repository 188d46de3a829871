"""Recognizes the log of a script that ended because an installed library lacks a module that it imports."""

from __future__ import annotations

import re
from collections.abc import Sequence

_ERROR = re.compile(r"ModuleNotFoundError: No module named '(?P<name>[\w.]+)'\s*\Z")
_FRAME = re.compile(r'\s+File "(?P<file>[^"]+)", line \d+, in ')
_OF_LIBRARIES = ("/site-packages/", "/dist-packages/")


def missing_module(lines: Sequence[str]) -> str | None:
    """Return the module that a library failed to import, if that is how the log ends.

    An import in the script's own code does not count: a commit may have broken it, and bisecting has to find that.
    """
    written = [line for line in lines if line.strip()]
    error = _ERROR.match(written[-1]) if written else None
    frames = [frame["file"] for frame in map(_FRAME.match, written) if frame]
    if error is None or not frames or not any(folder in frames[-1] for folder in _OF_LIBRARIES):
        return None
    return error["name"]
