"""What a sink remembers from one invocation of a session to the next: SESSION/sinks/SINK.json."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from curator_bench import safe_files
from curator_bench.locking import locked
from curator_bench.values import RunRecord


def keep_newest(state: dict[str, Any], result: RunRecord, verdict: Any) -> None:
    """What came of an entry, unless a later run of it is known: results may be resent long afterwards."""
    ended = state.setdefault("ended", {})
    if ended.get(result.nodeid, "") <= result.ended_at:
        ended[result.nodeid] = result.ended_at
        state.setdefault("verdicts", {})[result.nodeid] = verdict


@dataclass(frozen=True, slots=True)
class State:
    """One JSON object, which several processes may read and change; never half of it."""

    path: Path

    def read(self) -> dict[str, Any]:
        try:
            found = json.loads(safe_files.read_text(self.path))
        except (OSError, ValueError):
            return {}
        return found if isinstance(found, dict) else {}

    @contextmanager
    def alone(self) -> Iterator[None]:
        """What takes long and only one of several invocations may do at a time; the object can be changed meanwhile."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with locked(self.path.with_suffix(".alone")):
            yield

    @contextmanager
    def changing(self) -> Iterator[dict[str, Any]]:
        """The object, nobody else's until the block is left; what was changed in it is then kept.

        Where the block raises, nothing is kept.
        """
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with locked(self.path.with_suffix(".lock")):
            document = self.read()
            before = json.dumps(document)
            yield document
            after = json.dumps(document)
            if after != before:
                safe_files.write_text(self.path, after + "\n")
