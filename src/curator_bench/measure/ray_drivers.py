"""Tells without Ray whether a driver has connected to a cluster of ours: it has a log beside the cluster's."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

_LOG = "-core-driver-"
"""Part of the name of a driver's log, after its language and before its job."""
_LOGS_ARE_ELSEWHERE = "RAY_LOG_TO_STDERR"


class RayDrivers:
    """The drivers that connect after `mark`."""

    def __init__(self, session_dir: Path | None, env: Mapping[str, str]) -> None:
        """Take the folder of the cluster's session, and the environment of the drivers."""
        self._logs = session_dir / "logs" if session_dir else None
        self._before: set[str] | None = None
        self._is_told = env.get(_LOGS_ARE_ELSEWHERE, "0") in ("", "0", "false")

    def mark(self) -> bool:
        """Ignore the drivers that are connected now. False if new ones could not be recognized."""
        self._before = self._found() if self._is_told else None
        return self._before is not None

    def has_come(self) -> bool:
        """True if a driver has connected since `mark`, or might have."""
        found = self._found()
        return found is None or self._before is None or not found <= self._before

    def _found(self) -> set[str] | None:
        if self._logs is None:
            return None
        try:
            return {name for name in os.listdir(self._logs) if _LOG in name}
        except OSError:
            return None
