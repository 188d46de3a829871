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
from curator_bench.importing import (
    action_benchmark,
    asv,
    bencher,
    coiled,
    exported_runs,
    google_benchmark,
    plain,
    pyperf,
    pytest_benchmark,
    results,
)
from curator_bench.importing.found_runs import Found, lines_of, named_file, whole_text
from curator_bench.importing.results import Combine

_SQLITE = b"SQLite format 3\0"
_LINES_LOOKED_AT = 100
_EXPECTED = (
    "expected unrecorded.jsonl, results.jsonl, lines of `curator-bench export --format jsonl`, lines with name, metric,"
    " value and time, results of asv, JSON of pytest-benchmark, pyperf, Google Benchmark, Bencher (BMF) or"
    " github-action-benchmark, or a benchmark.db of coiled/benchmarks"
)


@dataclass(frozen=True, slots=True)
class Format:
    """A format: its name for people, and its reader."""

    name: str
    read: Callable[[Path], Iterator[Found]]


def format_of(path: Path, combine: Combine) -> Format:
    """Recognise the format of a file. Raises BenchError if it is unknown."""
    if path.is_dir():
        if (path / asv.BENCHMARKS).is_file():
            return Format("results of asv", asv.read_folder)
        raise BenchError(f"{path} is a folder: name the files in it")
    with safe_files.open_file(named_file(path)) as file:
        start = file.read(len(_SQLITE))
    if start == _SQLITE:
        if coiled.recognizes(path):
            return Format("database of coiled/benchmarks", coiled.read)
        raise BenchError(f"{path} is a database with other tables: {_EXPECTED}")
    if (form := _of_list_or_script(path)) is not None:
        return form
    document = _first_object(path)
    for form, recognizes in _formats(combine):
        if recognizes(document):
            return form
    if not document and not whole_text(path).strip():
        return Format("empty file", _nothing)
    raise BenchError(f"{path} has an unknown format: {_EXPECTED}")


def _formats(combine: Combine) -> Iterator[tuple[Format, Callable[[Mapping[str, Any]], bool]]]:
    yield Format("recorded runs", exported_runs.read), exported_runs.recognizes
    yield Format("results.jsonl", partial(results.read, combine=combine)), results.recognizes
    yield Format("pyperf", partial(pyperf.read, combine=combine)), pyperf.recognizes
    yield Format("Google Benchmark", partial(google_benchmark.read, combine=combine)), google_benchmark.recognizes
    yield Format("pytest-benchmark", pytest_benchmark.read), pytest_benchmark.recognizes
    yield Format("results of asv", asv.read), asv.recognizes
    yield Format("read with the results of asv", _nothing), asv.is_machine
    yield Format("read with the results of asv", _nothing), asv.is_list_of_benchmarks
    yield Format("github-action-benchmark", action_benchmark.read), action_benchmark.recognizes
    yield Format("Bencher's BMF", bencher.read), bencher.recognizes
    yield Format("measurements", plain.read), plain.recognizes


def _of_list_or_script(path: Path) -> Format | None:
    """Recognise the files that are not JSON objects."""
    start = next((line.strip() for line in islice(lines_of(path), _LINES_LOOKED_AT) if line.strip()), "")
    if start.startswith(action_benchmark.SCRIPT):
        return Format("github-action-benchmark", action_benchmark.read)
    if start.startswith("[") and action_benchmark.is_list_of_results(whole_text(path)):
        return Format("results for github-action-benchmark", action_benchmark.read_list)
    return None


def _nothing(path: Path) -> Iterator[Found]:
    return iter(())


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
