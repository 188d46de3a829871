"""Recognise a file's format from its contents."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

from curator_bench.errors import BenchError
from curator_bench.files import safe_files
from curator_bench.files.codec import parsed
from curator_bench.importing import coiled, exported_runs, plain, pytest_benchmark, results
from curator_bench.importing.found_runs import Found, lines_of, named_file, whole_text
from curator_bench.importing.results import Combine

_SQLITE = b"SQLite format 3\0"
_LINES_LOOKED_AT = 100
_EXPECTED = (
    "expected unrecorded.jsonl, results.jsonl, lines of `curator-bench export --format jsonl`, lines with name, metric,"
    " value and time, JSON of pytest-benchmark, or a benchmark.db of coiled/benchmarks"
)


@dataclass(frozen=True, slots=True)
class Format:
    """A format: its name for people, and its reader."""

    name: str
    read: Callable[[Path], Iterator[Found]]


def format_of(path: Path, combine: Combine) -> Format:
    """Recognise the format of a file. Raises BenchError if it is unknown."""
    if path.is_dir():
        raise BenchError(f"{path} is a folder: name the files in it")
    with safe_files.open_file(named_file(path)) as file:
        start = file.read(len(_SQLITE))
    if start == _SQLITE:
        if coiled.recognizes(path):
            return Format("database of coiled/benchmarks", coiled.read)
        raise BenchError(f"{path} is a database with other tables: {_EXPECTED}")
    document = _first_object(path)
    for form, recognizes in _formats(combine):
        if recognizes(document):
            return form
    if not document and not whole_text(path).strip():
        return Format("empty file", lambda path: iter(()))
    raise BenchError(f"{path} has an unknown format: {_EXPECTED}")


def _formats(combine: Combine) -> Iterator[tuple[Format, Callable[[Mapping[str, Any]], bool]]]:
    yield Format("recorded runs", exported_runs.read), exported_runs.recognizes
    yield Format("results.jsonl", partial(results.read, combine=combine)), results.recognizes
    yield Format("pytest-benchmark", pytest_benchmark.read), pytest_benchmark.recognizes
    yield Format("measurements", plain.read), plain.recognizes


def _first_object(path: Path) -> Mapping[str, Any]:
    """Find a JSON object in the first lines, or in the whole file; empty if there is none."""
    start = ""
    for line in islice(lines_of(path), _LINES_LOOKED_AT):
        if found := _object(line):
            return found
        start = start or line.strip()[:1]
    return _object(whole_text(path)) if start == "{" else {}


def _object(text: str) -> Mapping[str, Any]:
    try:
        found = parsed(text)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}
