"""Program that lists or runs benchmarks written for asv, by their own library asv_runner.

    asv_program.py list SUITE FILE                              writes asv's list of the suite's benchmarks to FILE
    asv_program.py SUITE NAME [VALUE …] --benchmark-results-path FOLDER      runs one of them, as asv would

It runs by path, in the interpreter that has the package under test, and imports nothing of ours (standard library,
Python 3.8 or newer). Each measurement is a process of its own, as in asv.
"""

from __future__ import annotations

import json
import math
import os
import statistics
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Callable
from typing import Any

SKIPPED = 77
"""Exit code of a benchmark that says it cannot run: NotImplementedError in its setup, or skipped parameters."""
_RESULT = "result.json"
_WHY = ".why"
"""Ending of the file beside a result, with the reason why there is none."""
_SKIPPED = "asv: skipped: "
_RESULTS = "--benchmark-results-path"
_NAMES = {"time": "time_s", "memory": "size_bytes", "peakmemory": "peakmem_bytes"}
"""The metric of each kind of benchmark."""
_UNITS = {"seconds": "time_s", "bytes": "size_bytes"}
"""The metric of a value that a benchmark tracks, by its unit."""


def main(words: list[str]) -> int:
    commands: dict[str, Callable[..., None]] = {"list": _list, "cache": _cache, "measure": _measure}
    command = commands.get(words[0])
    if command is not None:
        command(*words[1:])
        return 0
    at = words.index(_RESULTS)
    suite, name, *values = words[:at] + words[at + 2 :]
    return _run(os.path.abspath(suite), name, values, os.path.abspath(words[at + 1]))


def _list(suite: str, file: str) -> None:
    from asv_runner.discovery import _discover

    try:
        _discover((suite, file))
    except (Exception, SystemExit) as error:
        sys.exit(_place_in(suite, error) + _said_by(error))


def _place_in(suite: str, error: BaseException) -> str:
    """Return the last line of the suite that led to an error, as `FILE:LINE: `; empty if none did."""
    lines = [(frame.filename, frame.lineno) for frame in traceback.extract_tb(error.__traceback__)]
    if isinstance(error, SyntaxError) and error.filename:
        lines.append((error.filename, error.lineno))
    inside = [(file, line) for file, line in lines if file.startswith(os.path.join(suite, ""))]
    return "{}:{}: ".format(*inside[-1]) if inside else ""


def _said_by(error: BaseException) -> str:
    text = error.msg if isinstance(error, SyntaxError) else str(error)
    return ": ".join([type(error).__name__, *text.strip().splitlines()[:1]])


def _cache(suite: str, benchmark: str) -> None:
    from asv_runner.setup_cache import _setup_cache

    _setup_cache((suite, benchmark, "{}"))


def _measure(suite: str, benchmark: str, file: str) -> None:
    from asv_runner.run import _run

    sys.stdout = noting = _NotesSkips(sys.stdout)
    _run((suite, benchmark, "{}", "None", file))
    with open(file + _WHY, "w", encoding="utf-8") as text:
        text.write(noting.why)


class _NotesSkips:
    """Standard output that notes the reason why asv skips a benchmark, which it only prints."""

    def __init__(self, output: Any) -> None:
        self._output = output
        self.why = ""

    def write(self, text: str) -> int:
        if text.startswith(_SKIPPED):
            self.why = text[len(_SKIPPED) :].strip()
        return int(self._output.write(text))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._output, name)


def _run(suite: str, name: str, values: list[str], results: str) -> int:
    from asv_runner.discovery import get_benchmark_from_name

    benchmark = get_benchmark_from_name(suite, name)
    wanted = name + _index(benchmark, values)
    with tempfile.TemporaryDirectory(dir=_scratch_beside(results)) as folder:
        if benchmark.setup_cache_key is not None:
            _in_a_process(["cache", suite, wanted], folder)
        found = [_result(suite, wanted, folder) for _ in range(getattr(benchmark, "rounds", 1))]
        why = _why_skipped(folder)
    if any(isinstance(one, float) and math.isnan(one) for one in found):
        sys.stdout.write((why or "asv has no result for these parameters") + "\n")
        return SKIPPED
    metrics, samples = _metrics(benchmark, found)
    params = dict(zip(benchmark.param_names, values))
    os.makedirs(results, exist_ok=True)
    _write(results, "params.json", {**params, "type": benchmark.type, "unit": benchmark.unit})
    _write(results, "samples.json", samples)
    _write(results, "metrics.json", {"is_success": True, **metrics})
    return 0


def _index(benchmark: Any, values: list[str]) -> str:
    """Return asv's suffix of the name for a combination of parameters."""
    if len(values) != len(benchmark.params) or any(
        value not in known for value, known in zip(values, benchmark.params)
    ):
        sys.exit(f"{benchmark.name} has no parameters {values}; it has {benchmark.params}")
    index = 0
    for value, known in zip(values, benchmark.params):
        index = index * len(known) + known.index(value)
    return f"-{index}" if values else ""


def _scratch_beside(results: str) -> str | None:
    scratch = os.path.join(os.path.dirname(results), "scratch")
    return scratch if os.path.isdir(scratch) else None


def _why_skipped(folder: str) -> str:
    with open(os.path.join(folder, _RESULT + _WHY), encoding="utf-8") as text:
        return text.read()


def _result(suite: str, wanted: str, folder: str) -> Any:
    file = os.path.join(folder, _RESULT)
    _in_a_process(["measure", suite, wanted, file], folder)
    with open(file, encoding="utf-8") as text:
        return json.load(text)


def _in_a_process(words: list[str], folder: str) -> None:
    code = subprocess.call([sys.executable, os.path.abspath(__file__), *words], cwd=folder)
    if code:
        sys.exit(code if code > 0 else 1)


def _metrics(benchmark: Any, found: list[Any]) -> tuple[dict[str, Any], dict[str, list[float]]]:
    name = _NAMES.get(benchmark.type) or _UNITS.get(benchmark.unit, "value")
    if not isinstance(found[0], dict) or "samples" not in found[0]:
        return {name: found[0]}, {}
    samples = [sample for one in found for sample in one["samples"]]
    spread = {"min": min(samples), "max": max(samples), "n": len(samples)}
    spread["std"] = statistics.stdev(samples) if len(samples) > 1 else 0.0
    beside = {f"{name}_{ending}": value for ending, value in spread.items()}
    return {name: statistics.median(samples), **beside}, {name: samples}


def _write(folder: str, name: str, document: dict[str, Any]) -> None:
    with open(os.path.join(folder, name), "w", encoding="utf-8") as file:
        json.dump(document, file)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
