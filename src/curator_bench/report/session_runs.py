"""Every run of a session, as its folder has them: results.json of each entry, and what only summary.json knows."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from curator_bench import safe_files
from curator_bench.codec import from_document
from curator_bench.values import RunRecord

SUMMARY = "summary.json"
RESULTS = "results.json"
_SCHEMA_VERSION = 1
_LARGEST = 2**30
_NO_ENTRIES_IN = frozenset(["env", "data_setup", "standing_clusters", "undelivered"])
_OF_ONE_RUN = frozenset(["logs", "scratch", "ray_cluster", "artifacts", "benchmark_results"])
_NUMBERED = ("repeat_", "warmup_", "attempt_")


def runs_of(session_dir: Path) -> list[RunRecord]:
    """The last run of every entry. A session that was killed left no summary, so the entries' own files count too."""
    written = _runs_in_summary(session_dir / SUMMARY)
    return merged([*written, *_results_below(session_dir)])


def merged(runs: Iterable[RunRecord]) -> list[RunRecord]:
    """One of each entry: that which began last, of those alike the one that stands last."""
    found: dict[tuple[str, str], RunRecord] = {}
    for run in runs:
        # The name of an entry is unique in a session; that of a Python benchmark in its file.
        key = "" if run.matrix else run.file, run.name
        if key not in found or run.started_at >= found[key].started_at:
            found[key] = run
    return list(found.values())


def _runs_in_summary(path: Path) -> list[RunRecord]:
    found = read_object(path).get("runs")
    runs = [_run_in(document) for document in found] if isinstance(found, list) else []
    return [run for run in runs if run is not None]


def _results_below(session_dir: Path) -> Iterator[RunRecord]:
    for path in _files_below(session_dir):
        if run := read_run(path, session_dir):
            yield run


def broken_below(session_dir: Path) -> list[str]:
    """One line for each results.json that is not believed, with the reason."""
    return [why for path in _files_below(session_dir) if (why := why_broken(path))]


def _files_below(session_dir: Path) -> Iterator[Path]:
    for folder, folders, names in os.walk(session_dir):
        top = Path(folder) == session_dir
        is_entry = RESULTS in names
        folders[:] = sorted(name for name in folders if not _holds_no_entry(name, top=top, in_entry=is_entry))
        if is_entry:
            yield Path(folder, RESULTS)


def _holds_no_entry(name: str, *, top: bool, in_entry: bool) -> bool:
    if top:
        return name in _NO_ENTRIES_IN
    return in_entry and (name in _OF_ONE_RUN or name.startswith(_NUMBERED))


def read_run(path: Path, below: Path | None = None) -> RunRecord | None:
    """The run that a results.json tells of; None where there is no file, or none that can be believed."""
    return _run_in(read_object(path, below))


def why_broken(path: Path) -> str:
    """Why a results.json is not believed; empty where there is none, or nothing is wrong with it."""
    if not os.path.lexists(path) or read_run(path):
        return ""
    version = read_object(path).get("schema_version", _SCHEMA_VERSION)
    if version != _SCHEMA_VERSION:
        return f"{path} is of another version of curator-bench (schema_version {version!r})"
    return f"{path} is broken"


def read_object(path: Path, below: Path | None = None) -> dict[str, Any]:
    """The object in a file of JSON; empty where there is none that can be read: its writer may have been killed.

    `below`: the folder from which on no link is followed, the file's own where nothing is said.
    """
    try:
        found = json.loads(safe_files.read_text(path, below=below, most_bytes=_LARGEST))
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def _run_in(document: Any) -> RunRecord | None:
    """The run in a document; None unless all values are of the types we write."""
    if not isinstance(document, dict) or document.get("schema_version", _SCHEMA_VERSION) != _SCHEMA_VERSION:
        return None
    try:
        return from_document(RunRecord, document)
    except ValueError:
        return None


def run_on(report: object) -> RunRecord | None:
    """The run that a test report carries; None on the reports of other tests."""
    document = getattr(report, "curator_bench", None)
    return None if document is None else from_document(RunRecord, document)
