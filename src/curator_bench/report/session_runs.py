"""All runs of a session, read from its folder: results.json of each entry, and summary.json."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from curator_bench.files.codec import from_document
from curator_bench.files.json_files import SCHEMA_VERSION, read_object
from curator_bench.values import RunRecord

SUMMARY = "summary.json"
RESULTS = "results.json"
STATUS = "status.json"
CLAIM = "claim.json"
"""A file in the folder of an entry while it runs."""
_OF_AN_ENTRY = frozenset([RESULTS, STATUS, CLAIM])
_NO_ENTRIES_IN = frozenset(["env", "data_setup", "standing_clusters", "undelivered"])
_OF_ONE_RUN = frozenset(["logs", "scratch", "ray_cluster", "artifacts", "benchmark_results"])
_NUMBERED = ("repeat_", "warmup_", "attempt_")


def runs_of(session_dir: Path) -> list[RunRecord]:
    """Return the last run of every entry. A killed session has no summary, so the entries' own files are read too."""
    written = _runs_in_summary(session_dir / SUMMARY)
    return merged([*written, *_results_below(session_dir)])


def merged(runs: Iterable[RunRecord]) -> list[RunRecord]:
    """Return one run of each entry: the one that began last and, of equal ones, the last in the list."""
    found: dict[tuple[str, str], RunRecord] = {}
    for run in runs:
        # Entry names are unique in a session; names of Python benchmarks only in their file.
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
    """Return a line for each results.json that is rejected, with the reason."""
    return [why for path in _files_below(session_dir) if (why := why_broken(path))]


def _files_below(session_dir: Path) -> Iterator[Path]:
    for folder, names in entries_below(session_dir):
        if RESULTS in names:
            yield folder / RESULTS


def entries_below(session_dir: Path) -> Iterator[tuple[Path, frozenset[str]]]:
    """Yield the folder of each entry that was begun, with the names of its files."""
    for folder, folders, names in os.walk(session_dir):
        top = Path(folder) == session_dir
        is_entry = not _OF_AN_ENTRY.isdisjoint(names)
        folders[:] = sorted(name for name in folders if not _holds_no_entry(name, top=top, in_entry=is_entry))
        if is_entry:
            yield Path(folder), frozenset(names)


def _holds_no_entry(name: str, *, top: bool, in_entry: bool) -> bool:
    if top:
        return name in _NO_ENTRIES_IN
    return in_entry and (name in _OF_ONE_RUN or name.startswith(_NUMBERED))


def read_run(path: Path, below: Path | None = None) -> RunRecord | None:
    """Return the run in a results.json, or None if the file is missing or rejected."""
    return _run_in(read_object(path, below=below))


def why_broken(path: Path) -> str:
    """Return why a results.json is rejected; empty if it is missing or valid."""
    if not os.path.lexists(path) or read_run(path):
        return ""
    version = read_object(path).get("schema_version", SCHEMA_VERSION)
    if version != SCHEMA_VERSION:
        return f"{path} is of another version of curator-bench (schema_version {version!r})"
    return f"{path} is broken"


def _run_in(document: Any) -> RunRecord | None:
    """Return the run in a document, or None unless every value has the type we write."""
    if not isinstance(document, dict) or document.get("schema_version", SCHEMA_VERSION) != SCHEMA_VERSION:
        return None
    try:
        return from_document(RunRecord, document)
    except ValueError:
        return None


def run_on(report: object) -> RunRecord | None:
    """Return the run that a test report carries, or None for other tests and for subtests."""
    document = getattr(report, "curator_bench", None)
    if document is None or is_of_subtest(report):
        return None
    return from_document(RunRecord, document)


def is_of_subtest(report: object) -> bool:
    """True for the report of a subtest, in pytest 9 or with pytest-subtests: a copy of the test's, with its run."""
    return type(report).__name__.lower() == "subtestreport"
