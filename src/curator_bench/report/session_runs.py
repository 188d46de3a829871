"""Every run of a session, as its folder has them: results.json of each entry, and what only summary.json knows."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from curator_bench import safe_files
from curator_bench.values import Verdict

SUMMARY = "summary.json"
RESULTS = "results.json"
_SCHEMA_VERSION = 1
_LARGEST = 2**30
_VERDICTS = frozenset(map(str, Verdict))
_MAPPINGS = ("metrics", "params", "axes")
_NO_ENTRIES_IN = frozenset(["env", "data_setup", "standing_clusters", "undelivered"])
_OF_ONE_RUN = frozenset(["logs", "scratch", "ray_cluster", "artifacts", "benchmark_results"])
_NUMBERED = ("repeat_", "warmup_", "attempt_")


def runs_of(session_dir: Path) -> list[dict[str, Any]]:
    """The last run of every entry. What was killed left no summary, so the entries' own files are asked as well."""
    written = _runs_in_summary(session_dir / SUMMARY)
    return merged([*written, *_results_below(session_dir)])


def merged(runs: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """One of each entry: that which began last, of those alike the one that stands last."""
    found: dict[tuple[str, str], dict[str, Any]] = {}
    for run in runs:
        key = str(run.get("file", "")), str(run["name"])
        if key not in found or _began(run) >= _began(found[key]):
            found[key] = run
    return list(found.values())


def _began(run: dict[str, Any]) -> str:
    return str(run.get("started_at", ""))


def _runs_in_summary(path: Path) -> list[dict[str, Any]]:
    found = read_object(path).get("runs")
    return [run for run in found if _is_run(run)] if isinstance(found, list) else []


def _results_below(session_dir: Path) -> Iterator[dict[str, Any]]:
    for path in _files_below(session_dir):
        if run := read_run(path, session_dir):
            yield run


def broken_below(session_dir: Path) -> list[str]:
    """What is wrong with the results.json of entries, a line for each that is not believed."""
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


def read_run(path: Path, below: Path | None = None) -> dict[str, Any]:
    """What a results.json says; empty where there is none, or none that says it."""
    run = read_object(path, below)
    return run if _is_run(run) else {}


def why_broken(path: Path) -> str:
    """Why a results.json is not believed; empty where there is none, or nothing is wrong with it."""
    if not os.path.lexists(path) or read_run(path):
        return ""
    version = read_object(path).get("schema_version", _SCHEMA_VERSION)
    if version != _SCHEMA_VERSION:
        return f"{path} is of another version of curator-bench (schema_version {version!r})"
    return f"{path} is broken"


def read_object(path: Path, below: Path | None = None) -> dict[str, Any]:
    """Empty where there is none, or none that can be read: whoever wrote it may have been killed.

    `below`: the folder from which on no link is followed, the file's own where nothing is said.
    """
    try:
        found = json.loads(safe_files.read_text(path, below=below, most_bytes=_LARGEST))
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def _is_run(run: Any) -> bool:
    """Whether it is one we may have written: nothing of another kind is believed."""
    if not isinstance(run, dict) or run.get("schema_version", _SCHEMA_VERSION) != _SCHEMA_VERSION:
        return False
    texts = isinstance(run.get("name"), str) and isinstance(run.get("verdict"), str)
    return texts and run["verdict"] in _VERDICTS and all(isinstance(run.get(key, {}), dict) for key in _MAPPINGS)
