"""Import of SESSION/unrecorded.jsonl and of what `curator-bench export` writes: a whole run per line.

The recorder writes SESSION/unrecorded.jsonl if a database cannot record.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from curator_bench.errors import Mistake
from curator_bench.importing.found_runs import Found, FoundRun, documents
from curator_bench.store.records import StoredRun, from_document
from curator_bench.values import Place


def recognizes(document: Mapping[str, Any]) -> bool:
    return document.get("kind") == "run" or {"session", "start", "end"} <= document.keys()


def read(path: Path) -> Iterator[Found]:
    """Yield each run from its last line."""
    last = {item[1].start.uid: item[0].line for item in _runs(path) if not isinstance(item, Mistake)}
    for item in _runs(path):
        if isinstance(item, Mistake):
            yield item
        elif last.get(item[1].start.uid) == item[0].line:
            yield FoundRun(item[1], item[0])


def _runs(path: Path) -> Iterator[tuple[Place, StoredRun] | Mistake]:
    for item in documents(path):
        if isinstance(item, Mistake):
            yield item
            continue
        place, document = item
        try:
            yield place, from_document(document)
        except ValueError as error:
            yield Mistake(place, "", str(error))
