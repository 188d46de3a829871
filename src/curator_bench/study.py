"""`run_matrix`: a matrix run from Python or a notebook, for people who study something and do not think in pytest.

It is pytest underneath, in a child process; what it leaves is the same, and is read from there.
"""

from __future__ import annotations

import json
import os
import secrets
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeAlias

from curator_bench.errors import BenchError
from curator_bench.report.failures import category
from curator_bench.report.pivot import Pivot, pivot
from curator_bench.report.session_runs import runs_of
from curator_bench.values import Scalar, Verdict

Source: TypeAlias = str | os.PathLike[str] | Mapping[str, Any]
_ALL_PASSED, _SOME_FAILED, _INTERRUPTED, _NOTHING_TO_RUN = 0, 1, 2, 5
_RAN = (_ALL_PASSED, _SOME_FAILED)


@dataclass(frozen=True, slots=True)
class MatrixRun:
    """The last run of one entry in the session."""

    name: str
    """With its axes' values in brackets."""
    entry: str
    axes: Mapping[str, str]
    verdict: Verdict
    duration_s: float
    metrics: Mapping[str, Scalar]
    params: Mapping[str, Any] = field(repr=False)
    error: str
    category: str | None
    """What kind of failure it is; None where it is none."""
    directory: Path = field(repr=False)


@dataclass(frozen=True, slots=True)
class MatrixResults:
    """What a session has come to, earlier invocations of it included."""

    session: str
    directory: Path
    runs: tuple[MatrixRun, ...] = field(repr=False)
    exit_code: int
    """Of pytest: 0 when everything that ran passed."""
    written: tuple[Mapping[str, Any], ...] = field(repr=False, default=())
    """The runs as their results.json have them."""

    @property
    def passed(self) -> bool:
        return all(run.verdict in (Verdict.PASSED, Verdict.SKIPPED) for run in self.runs)

    @property
    def counts(self) -> dict[str, int]:
        return dict(Counter(str(run.verdict) for run in self.runs))

    @property
    def failures(self) -> list[MatrixRun]:
        return [run for run in self.runs if run.category is not None]

    def pivot(self, metric: str, *, rows: str | Sequence[str], columns: str | Sequence[str] = ()) -> Pivot:
        """One metric by axes; a notebook shows it as a table."""
        return pivot(self.written, metric=metric, rows=_listed(rows), columns=_listed(columns))

    def records(self) -> list[dict[str, Any]]:
        """One flat mapping per run, axes and metrics side by side: `pandas.DataFrame(results.records())`."""
        return [
            {"name": run.name, "entry": run.entry, "verdict": str(run.verdict), **run.axes, **run.metrics}
            for run in self.runs
        ]


def run_matrix(
    path_or_dict: Source,
    *,
    fleet: str | None = None,
    gpus: str | Iterable[int | str] | None = None,
    max_runs: int | None = None,
    resume: bool | str = False,
    session: str | None = None,
    results: str | os.PathLike[str] | None = None,
    record: bool = False,
    name: str = "run_matrix",
    quiet: bool = False,
    pytest_args: Sequence[str] = (),
) -> MatrixResults:
    """Runs a matrix (a file, a folder with matrices, or what such a file says as a dict) and answers its results.

    `fleet="local"`, `gpus=[0, 1]`, `max_runs` and `resume` are the options `--bench-fleet`, `--bench-gpus`,
    `--bench-max-runs` and `--bench-resume`. `record=True` is `--benchmark`: the runs go into the database.
    A dict is written to `.NAME.matrix.json` in the working folder, whose relative paths it means; its history goes by
    that name. A run that fails is in the results; a matrix that cannot be run is a BenchError.
    """
    started = datetime.now(UTC)
    chosen = session or f"benchmark-run__{started:%Y-%m-%d__%H-%M-%S}-{secrets.token_hex(2)}_UTC"
    folder = Path(os.path.abspath(results)) if results is not None else None
    words = [str(_as_file(path_or_dict, name)), "--bench-session", chosen]
    words += ["--bench-results", str(folder)] if folder else []
    words += ["--benchmark"] if record else []
    words += [*_fleet_options(fleet, gpus, max_runs, resume), *pytest_args]
    exit_code, output = _run_pytest(words, quiet=quiet)
    _raise_for(exit_code, output, may_be_empty=bool(resume))
    return _results(_session_dir(output, folder, chosen), chosen, exit_code)


def _as_file(source: Source, name: str) -> Path:
    if not isinstance(source, Mapping):
        if not os.path.exists(source):
            raise BenchError(f"run_matrix: there is no {os.path.abspath(source)}")
        return Path(source)
    path = Path(f".{name}.matrix.json")
    beside = path.with_suffix(f".{secrets.token_hex(4)}")
    beside.write_text(json.dumps(source, indent=2, default=str) + "\n", "utf-8")
    os.replace(beside, path)
    return path


def _fleet_options(
    fleet: str | None, gpus: str | Iterable[int | str] | None, max_runs: int | None, resume: bool | str
) -> list[str]:
    words = ["--bench-fleet", fleet] if fleet else []
    if gpus is not None:
        words += ["--bench-gpus", gpus if isinstance(gpus, str) else ",".join(map(str, gpus))]
    if max_runs is not None:
        words += ["--bench-max-runs", str(max_runs)]
    if resume:
        words.append("--bench-resume" if resume is True else f"--bench-resume={resume}")
    return words


def _run_pytest(words: Sequence[str], *, quiet: bool) -> tuple[int, str]:
    """Its exit code and what it printed, which is shown while it comes: a notebook has no terminal to print to."""
    child = subprocess.Popen(
        [sys.executable, "-m", "pytest", *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        stdin=subprocess.DEVNULL,
        text=True,
        errors="replace",
        start_new_session=True,
    )
    assert child.stdout is not None
    lines: list[str] = []
    with child:
        try:
            for line in child.stdout:
                lines.append(line)
                if not quiet:
                    sys.stdout.write(line)
                    sys.stdout.flush()
            return child.wait(), "".join(lines)
        except BaseException:
            _stop(child)
            raise


def _stop(child: subprocess.Popen[str]) -> None:
    """Ctrl-C, handed on: pytest notes what was interrupted and ends what it runs."""
    child.send_signal(signal.SIGINT)
    assert child.stdout is not None
    child.stdout.read()
    child.wait()


def _raise_for(exit_code: int, output: str, *, may_be_empty: bool) -> None:
    if exit_code in _RAN or (exit_code == _NOTHING_TO_RUN and may_be_empty):
        return
    if exit_code == _INTERRUPTED and "KeyboardInterrupt" in output:
        raise KeyboardInterrupt
    what = "has no entries to run" if exit_code == _NOTHING_TO_RUN else f"ended with exit code {exit_code}"
    raise BenchError(f"run_matrix: pytest {what}:\n{output.strip()}")


def _session_dir(output: str, results: Path | None, session: str) -> Path:
    """Where --results says; else where the matrix says, which pytest has printed in its last lines."""
    said = [line.removeprefix("Session: ") for line in output.splitlines() if line.startswith("Session: ")]
    return Path(said[-1]) if said else (results or Path("results").absolute()) / session


def _results(directory: Path, session: str, exit_code: int) -> MatrixResults:
    written = sorted(runs_of(directory), key=lambda run: (str(run.get("matrix")), run["name"]))
    return MatrixResults(session, directory, tuple(map(_run, written)), exit_code, tuple(written))


def _run(run: Mapping[str, Any]) -> MatrixRun:
    return MatrixRun(
        name=run["name"],
        entry=run.get("entry") or run["name"],
        axes=run.get("axes") or {},
        verdict=Verdict(run["verdict"]),
        duration_s=run.get("duration_s") or 0.0,
        metrics=run.get("metrics") or {},
        params=run.get("params") or {},
        error=run.get("error") or "",
        category=category(run),
        directory=Path(run.get("directory") or ""),
    )


def _listed(axes: str | Sequence[str]) -> list[str]:
    return [axes] if isinstance(axes, str) else list(axes)
