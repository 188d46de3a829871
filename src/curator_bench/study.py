"""`run_matrix`: runs a matrix from Python or a notebook, without knowledge of pytest.

pytest does the work in a child process and leaves the same files, from which the results are read.
"""

from __future__ import annotations

import codecs
import json
import locale
import os
import secrets
import select
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, Any, TypeAlias

from curator_bench.errors import BenchError
from curator_bench.files.locking import lock
from curator_bench.files.names import is_safe_name
from curator_bench.report.pivot import Pivot, pivot
from curator_bench.report.session_runs import runs_of
from curator_bench.values import MACHINE, RunRecord, Scalar, Verdict

Source: TypeAlias = str | os.PathLike[str] | Mapping[str, Any]
_ALL_PASSED, _SOME_FAILED, _INTERRUPTED, _NOTHING_TO_RUN = 0, 1, 2, 5
_RESUMES = ("passed", "finished")
_RAN = (_ALL_PASSED, _SOME_FAILED)
_OPENED_TO_HOLD = os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_FOR_US_ALONE = 0o600
"""Readable by the owner only, because the file may hold secrets, and whoever can open it could lock it for ever."""

_LOOKS_UP_EVERY_S = 0.5
"""A Ctrl-C that comes just before a wait, or that the system hands to another thread, takes effect only after it."""


@dataclass(frozen=True, slots=True)
class MatrixResults:
    """The results of a session, including its earlier invocations."""

    session: str
    directory: Path
    runs: tuple[RunRecord, ...] = field(repr=False)
    """The last run of each entry."""
    exit_code: int
    """The exit code of pytest: 0 when everything that ran passed."""

    @property
    def passed(self) -> bool:
        return all(run.verdict in (Verdict.PASSED, Verdict.SKIPPED) for run in self.runs)

    @property
    def counts(self) -> dict[str, int]:
        return dict(Counter(str(run.verdict) for run in self.runs))

    @property
    def failures(self) -> list[RunRecord]:
        return [run for run in self.runs if run.category is not None]

    def pivot(self, metric: str, *, rows: str | Sequence[str], columns: str | Sequence[str] = ()) -> Pivot:
        """Return one metric as a table of axes, which a notebook can show."""
        return pivot(self.runs, metric=metric, rows=_listed(rows), columns=_listed(columns))

    def records(self) -> list[dict[str, Any]]:
        """Return a flat mapping per run, with axes and metrics side by side: `pandas.DataFrame(results.records())`.

        What the machine did (`machine.…`) stands in the metrics of `runs` only.
        """
        return [
            {"name": run.name, "entry": run.entry, "verdict": str(run.verdict), **run.axes, **_own_metrics(run)}
            for run in self.runs
        ]


def _own_metrics(run: RunRecord) -> dict[str, Scalar]:
    return {name: value for name, value in run.metrics.items() if not name.startswith(MACHINE)}


def run_matrix(
    path_or_dict: Source,
    *,
    fleet: str | None = None,
    gpus: str | int | Iterable[int | str] | None = None,
    max_runs: int | None = None,
    resume: bool | str = False,
    session: str | None = None,
    results: str | os.PathLike[str] | None = None,
    record: bool = False,
    name: str = "run_matrix",
    quiet: bool = False,
    pytest_args: Sequence[str] = (),
) -> MatrixResults:
    """Run a matrix (a file, a folder with matrices, or the content of such a file as a dict) and return its results.

    `fleet="local"`, `gpus=[0, 1]`, `max_runs` and `resume` are the options `--bench-fleet`, `--bench-gpus`,
    `--bench-max-runs` and `--bench-resume`. `record=True` is `--benchmark`: the runs go into the database.
    `resume=True` (or `"finished"`) without a `session` resumes the newest one of this matrix.
    A dict is written to `.NAME.matrix.json` in the working folder. Its paths are relative to that, and its history has
    that name. A failed run is part of the results; a matrix that cannot be run raises BenchError.
    """
    if isinstance(pytest_args, str):
        raise BenchError(f"run_matrix: pytest_args: found a text, expected a list of words: {pytest_args.split()}")
    options = fleet_options(fleet, gpus, max_runs, resume)
    chosen = session or ("" if resume else _new_session())
    folder = Path(os.path.abspath(results)) if results is not None else None
    with _as_file(path_or_dict, name) as file:
        words = [str(file), *(["--bench-session", chosen] if chosen else [])]
        words += [f"--bench-results={folder}"] if folder else []
        words += ["--benchmark"] if record else []
        exit_code, output = _run_pytest([*words, *options, *pytest_args], quiet=quiet)
    _raise_for(exit_code, output, may_be_empty=bool(resume))
    return _results(_session_dir(output, folder, chosen), exit_code)


def _new_session() -> str:
    return f"{datetime.now(UTC):%Y-%m-%d_%H%M}_{secrets.token_hex(3)}"


@contextmanager
def _as_file(source: Source, name: str) -> Iterator[Path]:
    """Yield the path of a matrix. A dict is written to a file, which no other matrix may replace during the block."""
    if not isinstance(source, Mapping):
        if not isinstance(source, str | os.PathLike):
            raise BenchError(f"run_matrix: found {source!r}, expected a path, or a dict with the keys of a matrix")
        if not os.path.exists(source):
            raise BenchError(f"run_matrix: no such file or folder: {os.path.abspath(source)}")
        yield Path(source)
        return
    if not is_safe_name(name):
        raise BenchError(
            f"run_matrix: name: found {name!r}, expected letters, digits and _ . - + @, as in a file's name"
        )
    path = Path(f".{name}.matrix.json")
    with os.fdopen(os.open(path, _OPENED_TO_HOLD, _FOR_US_ALONE), "a+", encoding="utf-8") as file:
        _hold(file, json.dumps(source, indent=2, default=str) + "\n", path)
        yield path


def _hold(file: IO[str], text: str, path: Path) -> None:
    """Write the text and lock the file against other texts. Others may run the same text at the same time."""
    with suppress(BlockingIOError):
        lock(file, wait=False)
        if _content(file) != text:
            file.truncate(0)
            file.write(text)
            file.flush()
    lock(file, shared=True)
    if _content(file) != text:
        raise BenchError(
            f"run_matrix: another matrix runs at this moment as {path.absolute()};"
            " give one of them another name: run_matrix(…, name=…)"
        )


def _content(file: IO[str]) -> str:
    file.seek(0)
    return file.read()


def fleet_options(
    fleet: str | None, gpus: str | int | Iterable[int | str] | None, max_runs: int | None, resume: bool | str
) -> list[str]:
    if resume not in (False, True, *_RESUMES):
        raise BenchError(f"run_matrix: resume: found {resume!r}, expected True, False or one of {', '.join(_RESUMES)}")
    words = ["--bench-fleet", fleet] if fleet else []
    if gpus is not None:
        words += ["--bench-gpus", ",".join(map(str, gpus)) if isinstance(gpus, Iterable) else str(gpus)]
    if max_runs is not None:
        words += ["--bench-max-runs", str(max_runs)]
    if resume:
        words.append("--bench-resume" if resume is True else f"--bench-resume={resume}")
    return words


def _run_pytest(words: Sequence[str], *, quiet: bool) -> tuple[int, str]:
    """Run pytest, print its output as it comes, and return its exit code and output.

    A notebook has no terminal that pytest could print to.
    """
    child = subprocess.Popen(
        [sys.executable, "-P", "-m", "pytest", *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        stdin=subprocess.DEVNULL,
        start_new_session=True,
    )
    texts: list[str] = []
    with child:
        try:
            for text in _output(child):
                texts.append(text)
                if not quiet:
                    sys.stdout.write(text)
                    sys.stdout.flush()
            return child.wait(), "".join(texts)
        except BaseException:
            _stop(child)
            raise


def _output(child: subprocess.Popen[bytes]) -> Iterator[str]:
    """Yield the output in pieces, until its end. Between waits Python handles a Ctrl-C that ended none of them."""
    assert child.stdout is not None
    decoder = codecs.getincrementaldecoder(locale.getencoding())("replace")
    poll = select.poll()
    poll.register(child.stdout, select.POLLIN | select.POLLHUP)
    while True:
        if not poll.poll(_LOOKS_UP_EVERY_S * 1000):
            continue
        piece = os.read(child.stdout.fileno(), 1 << 16)
        if not piece:
            return
        yield decoder.decode(piece)


def _stop(child: subprocess.Popen[bytes]) -> None:
    """Interrupt pytest, which records interrupted runs and ends what it started. A second Ctrl-C hurries it."""
    while True:
        child.send_signal(signal.SIGINT)
        try:
            for _ in _output(child):
                pass
            child.wait()
            return
        except KeyboardInterrupt:
            continue


def _raise_for(exit_code: int, output: str, *, may_be_empty: bool) -> None:
    if exit_code in _RAN or (exit_code == _NOTHING_TO_RUN and may_be_empty):
        return
    if exit_code == _INTERRUPTED and "KeyboardInterrupt" in output:
        raise KeyboardInterrupt
    what = "has no entries to run" if exit_code == _NOTHING_TO_RUN else f"ended with exit code {exit_code}"
    raise BenchError(f"run_matrix: pytest {what}:\n{output.strip()}")


def _session_dir(output: str, results: Path | None, session: str) -> Path:
    """Return the session's folder: from pytest's last lines, or else from `results`."""
    said = [line.removeprefix("Session: ") for line in output.splitlines() if line.startswith("Session: ")]
    if not said and not session:
        raise BenchError(f"run_matrix: there is no session to resume:\n{output.strip()}")
    return Path(said[-1]) if said else (results or Path("results").absolute()) / session


def _results(directory: Path, exit_code: int) -> MatrixResults:
    runs = sorted(runs_of(directory), key=lambda run: (run.matrix, run.name))
    return MatrixResults(directory.name, directory, tuple(runs), exit_code)


def _listed(axes: str | Sequence[str]) -> list[str]:
    return [axes] if isinstance(axes, str) else list(axes)
