"""The memory of a sink from one invocation of a session to the next: SESSION/sinks/SINK.json."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from curator_bench.files import safe_files
from curator_bench.files.codec import parsed
from curator_bench.files.locking import locked
from curator_bench.values import RunRecord


def keep_newest(state: dict[str, Any], result: RunRecord, verdict: Any) -> None:
    """Keep the verdict of an entry, unless that of a later run is known: results may be resent long afterwards."""
    ended = state.setdefault("ended", {})
    if ended.get(result.nodeid, "") <= result.ended_at:
        ended[result.nodeid] = result.ended_at
        state.setdefault("verdicts", {})[result.nodeid] = verdict


@dataclass(frozen=True, slots=True)
class State:
    """One JSON object in a file. Several processes may read and change it, and each sees it whole."""

    path: Path

    def read(self) -> dict[str, Any]:
        try:
            found = parsed(safe_files.read_text(self.path))
        except (OSError, ValueError):
            return {}
        return found if isinstance(found, dict) else {}

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Lock out other invocations during long work. The object itself can still be changed meanwhile."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with locked(self.path.with_suffix(".alone")):
            yield

    @contextmanager
    def changing(self) -> Iterator[dict[str, Any]]:
        """Lock the object for a change, and write it at the end of the block.

        If the block raises, nothing is written.
        """
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with locked(self.path.with_suffix(".lock")):
            document = self.read()
            before = json.dumps(document)
            yield document
            after = json.dumps(document)
            if after != before:
                safe_files.write_text(self.path, after + "\n")
