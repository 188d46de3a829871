"""The numbers in a script's tasks.pkl, which is opened only in a short-lived process of the script's own interpreter.

A pickle runs whatever code it likes. Whatever that is, it costs a warning, and nothing of it is left afterwards.
"""

from __future__ import annotations

import math
import os
import secrets
import signal
import subprocess
import tempfile
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, BinaryIO

from curator_bench.execution.untrusted_files import (
    MEBIBYTE,
    Absent,
    Unusable,
    clean_text,
    decode_json_object,
    open_regular_file,
)

if TYPE_CHECKING:
    import psutil

_PROGRAM = Path(__file__).resolve().with_name("task_reader_program.py")
_MARK = "CURATOR_BENCH_TASK_READER"
_KILL_WITHIN_S = 2.0
# More address space than memory: importing torch maps gigabytes of libraries that it never touches.
_ADDRESS_SPACE_FACTOR = 4
_ALARM_GRACE_S = 5


@dataclass(frozen=True, slots=True)
class Limits:
    """What the process that opens a pickle may use."""

    time_s: float = 30.0
    memory_bytes: int = 4096 * MEBIBYTE
    answer_bytes: int = 16 * MEBIBYTE

    def as_arguments(self) -> tuple[str, ...]:
        seconds = math.ceil(self.time_s) + _ALARM_GRACE_S
        address_space = self.memory_bytes * _ADDRESS_SPACE_FACTOR
        return tuple(map(str, (seconds, self.memory_bytes, address_space, self.answer_bytes)))


_LIMITS = Limits()


@dataclass(frozen=True, slots=True)
class TaskMetrics:
    """`task_STAGE_METRIC_sum`, `_mean` and `_std` for every stage and metric of the tasks, and what was amiss."""

    metrics: Mapping[str, float] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()


def read_task_metrics(path: Path, *, python: str, env: Mapping[str, str], limits: Limits = _LIMITS) -> TaskMetrics:
    """The metrics in a tasks.pkl, read by `python` under `env`; none, and no warning, where there is no such file."""
    try:
        with open_regular_file(path) as tasks, tempfile.TemporaryFile() as answer:
            _run_reader(tasks, answer, python, env, path.parent, limits)
            answer.seek(0)
            return _understood(path.name, answer.read(limits.answer_bytes))
    except Absent:
        return TaskMetrics()
    except Unusable as reason:
        return TaskMetrics(warnings=(f"{path.name} {reason}",))
    except OSError as error:
        return TaskMetrics(warnings=(f"{path.name} cannot be read with {python}: {error.strerror or error}",))


def _run_reader(
    tasks: BinaryIO, answer: IO[bytes], python: str, env: Mapping[str, str], directory: Path, limits: Limits
) -> None:
    descriptors = (tasks.fileno(), answer.fileno())
    mark = secrets.token_hex(16)
    reader = subprocess.Popen(
        [python, str(_PROGRAM), *map(str, descriptors), *limits.as_arguments()],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        cwd=directory,
        env=_environment(env, mark),
        pass_fds=descriptors,
        start_new_session=True,
    )
    try:
        exit_code = reader.wait(limits.time_s)
    except subprocess.TimeoutExpired:
        raise Unusable(f"was given up after {limits.time_s:g} s") from None
    finally:
        _leave_nothing_of(reader, mark)
    if exit_code:
        raise Unusable(f"cannot be read: opening it ended the reading process ({_ending(exit_code)})")


def _environment(env: Mapping[str, str], mark: str) -> dict[str, str]:
    """The script's environment, without its cluster: reading numbers needs no Ray, nor a pool of threads per core."""
    kept = {name: value for name, value in env.items() if not name.startswith("RAY_")}
    return {**kept, "RAY_ENABLE_AUTO_CONNECT": "0", "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", _MARK: mark}


def _ending(exit_code: int) -> str:
    if exit_code > 0:
        return f"exit code {exit_code}"
    try:
        return signal.Signals(-exit_code).name
    except ValueError:
        return f"signal {-exit_code}"


def _leave_nothing_of(reader: subprocess.Popen[bytes], mark: str) -> None:
    """End the reader's process group, and whatever it started that has left the group."""
    left_the_group = _descendants(reader)
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(reader.pid, signal.SIGKILL)
    deadline = time.monotonic() + _KILL_WITHIN_S
    while (left_the_group := [*left_the_group, *_marked(mark)]) and time.monotonic() < deadline:
        _kill(left_the_group)
        left_the_group = []
        time.sleep(0.01)
    reader.wait()


def _descendants(reader: subprocess.Popen[bytes]) -> list[psutil.Process]:
    import psutil

    if reader.poll() is not None:
        return []
    with suppress(psutil.Error):
        return psutil.Process(reader.pid).children(recursive=True)
    return []


def _marked(mark: str) -> list[psutil.Process]:
    """The living processes that carry the mark in their environment, which children inherit."""
    import psutil

    found = []
    for process in psutil.process_iter():
        with suppress(psutil.Error, OSError):
            if process.environ().get(_MARK) == mark and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process)
    return found


def _kill(processes: list[psutil.Process]) -> None:
    import psutil

    for process in processes:
        with suppress(psutil.Error):
            process.kill()


def _understood(file_name: str, answer: bytes) -> TaskMetrics:
    """The reader's answer; the pickle may have tampered with that too, so only what looks right is taken."""
    try:
        fields = decode_json_object(answer).fields
    except Unusable as reason:
        raise Unusable(f"cannot be read: the reading process' answer {reason}") from None
    return TaskMetrics(
        metrics={clean_text(name): value for name, value in _items(fields.get("metrics")) if isinstance(value, float)},
        warnings=tuple(f"{file_name} {clean_text(text)}" for text in _texts(fields.get("warnings"))),
    )


def _items(value: Any) -> list[tuple[str, Any]]:
    return list(value.items()) if isinstance(value, dict) else []


def _texts(value: Any) -> list[str]:
    return [text for text in value if isinstance(text, str)] if isinstance(value, list) else []
