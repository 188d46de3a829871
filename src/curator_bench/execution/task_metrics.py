"""The numbers in a script's tasks.pkl, which is opened only in a short-lived process of the script's interpreter.

A pickle can run any code. Whatever it does, the result is at most a warning, and none of its processes stay.
"""

from __future__ import annotations

import math
import os
import signal
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import IO, Any, BinaryIO

from curator_bench.errors import BenchError
from curator_bench.execution.child import Child
from curator_bench.execution.untrusted_files import (
    MEBIBYTE,
    Absent,
    Unusable,
    clean_text,
    decode_json_object,
    open_regular_file,
)
from curator_bench.measure.named_stages import MOST_STAGES
from curator_bench.stages import LONGEST_NAME
from curator_bench.values import Stage, StageKind

_PROGRAM = Path(__file__).resolve().with_name("task_reader_program.py")
# Address space exceeds memory, because importing torch maps gigabytes of libraries that are never touched.
_ADDRESS_SPACE_FACTOR = 4
_ALARM_GRACE_S = 5
_LONGEST_WARNING, _MOST_WARNINGS = 1000, 10


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits of the process that opens a pickle."""

    time_s: float = 30.0
    memory_bytes: int = 4096 * MEBIBYTE
    answer_bytes: int = 16 * MEBIBYTE
    bytes_per_s: int = 4 * MEBIBYTE
    """A large file gets more time: as long as it takes at this speed, which a busy machine reaches."""
    longest_s: float = 300.0

    def of_file(self, size: int) -> Limits:
        more = size / self.bytes_per_s
        return replace(self, time_s=max(self.time_s, min(self.time_s + more, self.longest_s)))

    def as_arguments(self) -> tuple[str, ...]:
        seconds = math.ceil(self.time_s) + _ALARM_GRACE_S
        address_space = self.memory_bytes * _ADDRESS_SPACE_FACTOR
        return tuple(map(str, (seconds, self.memory_bytes, address_space, self.answer_bytes)))


_LIMITS = Limits()


@dataclass(frozen=True, slots=True)
class TaskMetrics:
    """Metrics `task_STAGE_METRIC_sum`, `_mean` and `_std` for every stage and metric of the tasks, the stages,
    and warnings."""

    metrics: Mapping[str, float] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()
    stages: tuple[Stage, ...] = ()


def read_task_metrics(
    path: Path, *, python: str, env: Mapping[str, str], limits: Limits = _LIMITS, below: Path | None = None
) -> TaskMetrics:
    """Read the metrics of a tasks.pkl with `python` under `env`; empty, without a warning, if there is no such file.

    No link is followed from the folder `below` on.
    """
    try:
        with open_regular_file(path, below) as tasks, tempfile.TemporaryFile() as answer:
            size = os.fstat(tasks.fileno()).st_size
            _run_reader(tasks, answer, python, env, path.parent, limits.of_file(size))
            answer.seek(0)
            return _understood(path.name, answer.read(limits.answer_bytes))
    except Absent:
        return TaskMetrics()
    except Unusable as reason:
        return TaskMetrics(warnings=(f"{path.name} {reason}",))
    except BenchError as error:
        return TaskMetrics(warnings=(f"{path.name} cannot be read with {python}: {error}",))
    except OSError as error:
        return TaskMetrics(warnings=(f"{path.name} cannot be read with {python}: {error.strerror or error}",))


def _run_reader(
    tasks: BinaryIO, answer: IO[bytes], python: str, env: Mapping[str, str], folder: Path, limits: Limits
) -> None:
    """Run the reader as a child of the run, with mark, keeper and clean-up like any other."""
    descriptors = (tasks.fileno(), answer.fileno())
    words = [python, str(_PROGRAM), *map(str, descriptors), *limits.as_arguments()]
    child = Child(words, env=_environment(env), log=None, cwd=str(folder), keep_open=descriptors)
    try:
        ended = child.wait(limits.time_s)
    finally:
        child.end(grace_s=0)
    if ended.exit_code is None:
        raise Unusable(f"was stopped after {limits.time_s:.3g} s")
    if ended.exit_code:
        raise Unusable(f"cannot be read: opening it ended the reading process ({_ending(ended.exit_code)})")


def _environment(env: Mapping[str, str]) -> dict[str, str]:
    """The script's environment without its cluster. Reading numbers needs neither Ray nor a thread pool per core."""
    kept = {name: value for name, value in env.items() if not name.startswith("RAY_")}
    return {**kept, "RAY_ENABLE_AUTO_CONNECT": "0", "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}


def _ending(exit_code: int) -> str:
    if exit_code > 0:
        return f"exit code {exit_code}"
    try:
        return signal.Signals(-exit_code).name
    except ValueError:
        return f"signal {-exit_code}"


def _understood(file_name: str, answer: bytes) -> TaskMetrics:
    """Parse the reader's answer. The pickle may have tampered with it, so only valid values are taken."""
    try:
        fields = decode_json_object(answer).fields
    except Unusable as reason:
        raise Unusable(f"cannot be read: the reading process' answer {reason}") from None
    return TaskMetrics(
        metrics={clean_text(name): value for name, value in _items(fields.get("metrics")) if isinstance(value, float)},
        warnings=tuple(f"{file_name} {clean_text(text)}" for text in _texts(fields.get("warnings"))),
        stages=tuple(_stages(fields.get("stages"))),
    )


def _stages(value: Any) -> Iterator[Stage]:
    for said in value[:MOST_STAGES] if isinstance(value, list) else ():
        name, count, seconds = said if isinstance(said, list) and len(said) == 3 else (None, None, None)
        if isinstance(name, str) and type(count) is int and 0 <= count < 2**53:
            known = isinstance(seconds, float) and math.isfinite(seconds) and seconds >= 0
            yield Stage(
                name=clean_text(name[:LONGEST_NAME]),
                kind=StageKind.STEP,
                count=count,
                executing_s=seconds if known else None,
            )


def _items(value: Any) -> list[tuple[str, Any]]:
    return list(value.items()) if isinstance(value, dict) else []


def _texts(value: Any) -> list[str]:
    found = [text[:_LONGEST_WARNING] for text in value if isinstance(text, str)] if isinstance(value, list) else []
    return found[:_MOST_WARNINGS]
