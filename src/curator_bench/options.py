"""Every command-line and ini option, read once into one typed Settings."""

from __future__ import annotations

import importlib.util
import os
import re
import secrets
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from curator_bench.errors import BenchError, MissingExtra
from curator_bench.files.names import is_safe_name
from curator_bench.matrix_files import DEFAULT_PATTERNS
from curator_bench.rootdir import DATABASE, database_of, refuse_unread_ini, rootdir

_PORT = r"([1-9]\d{0,3}|[1-5]\d{4}|6[0-4]\d{3}|65[0-4]\d{2}|655[0-2]\d|6553[0-5])"
_FLEET = re.compile(rf"(local|auto|(ray://)?\S+:{_PORT})\Z")
_COLLECT = ("asked", "always")
_FAIL_ON = ("regression",)
_INCONCLUSIVE = ("pass", "fail")


@dataclass(frozen=True)
class FleetOptions:
    """The options of --bench-fleet: its address, and how many runs may run at once."""

    address: str
    cpus: float | None = None
    gpus: tuple[str, ...] | None = None
    max_runs: int | None = None
    runs_per_gpu: int = 1
    wait_s: float = 0.0


@dataclass(frozen=True)
class Settings:
    """The user's choices from the command line and ini file. Paths are absolute."""

    benchmark: bool
    patterns: tuple[str, ...]
    asks: bool
    """True if the command line names files or folders, or has an option of ours."""
    overlays: tuple[Path, ...]
    datasets_file: Path | None
    session: str
    """The session's name. Unless the user chose one, it is long and unique until it gets a short one from its folder.
    """
    invocation: str
    database: str
    """A path or an SQLAlchemy URL."""
    results_dir: str | None
    sinks: tuple[str, ...]
    sink_grace_s: float
    reason: str | None
    viewer_url: str | None
    strict: bool
    entries: tuple[str, ...]
    fail_on_regression: bool
    confirm: int
    """The number of repeated measurements of an entry whose gate fails or is inconclusive."""
    curator_repo: str | None
    working_dir: Path
    progress_every_s: float = 30.0
    """Seconds between lines of progress where lines cannot be redrawn; 0 for never."""
    fleet: FleetOptions | None = None
    resume: str | None = None
    """The entries that are not run again: `passed` or `finished`."""
    names_session: bool = False
    """True if the user chose the session."""
    runs: int = 1
    """The number of runs of each entry, one after the other."""
    confirm_budget_s: float | None = None
    """The longest time in seconds for all repeated measurements; None derives it from the session's length."""
    inconclusive_fails: bool = False
    """True if a run fails when a gate is inconclusive."""
    copy_to: str | None = None
    """The folder or URL that the runs' folders are copied to."""

    def with_session(self, session: str) -> Settings:
        return replace(self, session=session)


def add_options(parser: pytest.Parser) -> None:
    """Add the options and ini keys of this plugin, in groups of their own in `pytest --help`."""
    group = parser.getgroup("curator-bench", "benchmarks (curator-bench): recording")
    group.addoption("--benchmark", action="store_true", help="record every run in the database and report to sinks")
    group.addoption(
        "--benchmark-db",
        metavar="PATH|URL",
        help="the database: a file or an SQLAlchemy URL (benchmark.db in the project's folder)",
    )
    _add_matrix_options(parser.getgroup("curator-bench-matrix", "benchmarks: matrices"))
    _add_session_options(parser.getgroup("curator-bench-session", "benchmarks: sessions, results and sinks"))
    _add_gate_options(parser.getgroup("curator-bench-gates", "benchmarks: regressions"))
    _add_fleet_options(parser.getgroup("curator-bench-fleet", "benchmarks: the fleet"))
    parser.addini("bench_files", "files collected as matrices in directories", type="args", default=DEFAULT_PATTERNS)
    parser.addini("bench_collect", "which benchmarks a plain `pytest` runs: asked or always", default="asked")
    parser.addini("benchmark_db", "as --benchmark-db", default=DATABASE)
    parser.addini("bench_matrix", "as --bench-matrix", type="paths", default=[])
    parser.addini("bench_datasets", "as --bench-datasets", default="")
    parser.addini("bench_results", "as --bench-results", default="")
    parser.addini("bench_sink", "as --bench-sink", type="args", default=[])
    parser.addini("bench_sink_grace", "as --bench-sink-grace", default="30")
    parser.addini("bench_copy_to", "as --bench-copy-to", default="")
    parser.addini("bench_progress", "as --bench-progress", default="30")
    parser.addini("bench_reason", "as --bench-reason", default="")
    parser.addini("bench_viewer_url", "as --bench-viewer-url", default="")
    parser.addini("bench_strict", "as --bench-strict", type="bool", default=False)
    parser.addini("bench_fail_on", "as --bench-fail-on", default="")
    parser.addini("bench_confirm", "as --bench-confirm", default="2")
    parser.addini("bench_confirm_budget", "as --bench-confirm-budget", default="")
    parser.addini("bench_inconclusive", "as --bench-inconclusive", default="pass")
    parser.addini("bench_curator_repo", "as --bench-curator-repo", default="")
    parser.addini("bench_fleet", "as --bench-fleet", default="")


def _add_matrix_options(group: pytest.OptionGroup) -> None:
    group.addoption(
        "--bench-matrix",
        action="append",
        default=[],
        metavar="FILE",
        help="lay this file over every collected matrix (repeatable, later wins)",
    )
    group.addoption("--bench-datasets", metavar="FILE", help="paths of datasets: a matrix or the older JSON file")
    group.addoption("--bench-strict", action="store_true", help="any undefined ${VARIABLE} in a matrix is a mistake")
    group.addoption(
        "--bench-entries",
        action="append",
        default=[],
        metavar="A,B",
        help="run only the entries with these exact names; an unknown name is a usage error",
    )
    group.addoption(
        "--bench-curator-repo",
        metavar="DIR",
        help="value of {curator_repo_dir} (else CURATOR_REPO_DIR, else the matrix's git checkout)",
    )


def _add_session_options(group: pytest.OptionGroup) -> None:
    group.addoption("--bench-session", metavar="NAME", help="name of the session; an existing one is joined")
    # The value is part of the option's name. An option with a separate value would swallow a path that follows it.
    for spelling, kept in (("", "passed"), ("=passed", "passed"), ("=finished", "finished")):
        group.addoption(
            f"--bench-resume{spelling}",
            dest="bench_resume",
            action="store_const",
            const=kept,
            help="resume the session of --bench-session, or the newest of this matrix, without entries that passed"
            if not spelling
            else "the same"
            if kept == "passed"
            else "resume without entries that passed, failed, crashed or timed out",
        )
    group.addoption("--bench-results", metavar="DIR", help="folder for sessions (overrides results_dir of the matrix)")
    group.addoption(
        "--bench-sink",
        action="append",
        default=[],
        metavar="NAME",
        help="report to this sink, also without --benchmark (repeatable; none: no sinks)",
    )
    group.addoption(
        "--bench-sink-grace",
        metavar="SECONDS",
        help="how long to wait at the end for a sink that delivers nothing (30)",
    )
    group.addoption(
        "--bench-copy-to",
        metavar="URL",
        help="copy the folder of each run to URL/SESSION when it has ended; a folder or a URL of fsspec"
        " (s3://BUCKET/FOLDER)",
    )
    group.addoption(
        "--bench-runs",
        metavar="N",
        help="run each entry N times in a row, as separate runs (1)",
    )
    group.addoption(
        "--bench-progress",
        metavar="SECONDS",
        help="how often to print progress if the output is not a terminal (30; 0: never)",
    )
    group.addoption("--bench-reason", metavar="TEXT", help="reason for this session, which is recorded")
    group.addoption("--bench-viewer-url", metavar="URL", help="where results are shown (overrides the matrix)")


def _add_fleet_options(group: pytest.OptionGroup) -> None:
    group.addoption(
        "--bench-fleet",
        metavar="local|ADDRESS",
        help="run entries side by side on a Ray cluster: a local one for this session, or an existing one"
        " (HOST:PORT if this machine is one of its nodes, else ray://HOST:PORT)",
    )
    group.addoption("--bench-fleet-cpus", metavar="N", help="CPUs of this machine for --bench-fleet local (all)")
    group.addoption("--bench-gpus", metavar="0,2,3", help="GPUs of this machine for --bench-fleet local (all)")
    group.addoption("--bench-max-runs", metavar="N", help="most runs at once (as many as the fleet's resources allow)")
    group.addoption("--bench-runs-per-gpu", metavar="K", help="let K runs that ask for one GPU share it (1)")
    group.addoption(
        "--bench-fleet-wait",
        metavar="SECONDS",
        help="how long to wait for a node that is large enough, on a cluster that grows (0)",
    )


def _add_gate_options(group: pytest.OptionGroup) -> None:
    group.addoption(
        "--bench-fail-on",
        choices=_FAIL_ON,
        help="fail a run if any of its metrics is a regression, also without a requirement",
    )
    group.addoption(
        "--bench-confirm",
        metavar="N",
        help="repeat the measurement up to N times before a run fails for a regression (2)",
    )
    group.addoption(
        "--bench-confirm-budget",
        metavar="SECONDS",
        help="longest time for all repeated measurements (600, or a fifth of the session so far, whichever is more)",
    )
    group.addoption(
        "--bench-inconclusive",
        choices=_INCONCLUSIVE,
        help="verdict of a run whose gate is inconclusive: passed with a warning, or failed (pass)",
    )


def _asks(config: pytest.Config) -> bool:
    """True if the user asks for benchmarks. Options in addopts count; files that pytest finds by itself do not."""
    said = {name: value for name, value in vars(config.option).items() if name.startswith("bench_")}
    return (
        _collect(config) == "always"
        or config.args_source is pytest.Config.ArgsSource.ARGS
        or config.option.collectonly
        or config.getoption("--benchmark")
        or any(value not in (None, False, []) for value in said.values())
    )


def _collect(config: pytest.Config) -> str:
    said = str(config.getini("bench_collect"))
    if said not in _COLLECT:
        raise BenchError(f"bench_collect: found {said!r}, expected {' or '.join(_COLLECT)}")
    return said


def read_settings(config: pytest.Config) -> Settings:
    """Return the settings from command line and ini file. Raises BenchError for values without meaning."""
    refuse_unread_ini(config)
    working_dir = config.invocation_params.dir

    def path(option: str, ini: str) -> Path | None:
        given = config.getoption(option)
        if given:
            return Path(os.path.normpath(working_dir / os.path.expanduser(given)))
        value = config.getini(ini)
        return Path(os.path.normpath((config.inipath or rootdir(config) / "x").parent / value)) if value else None

    invocation = secrets.token_hex(8)
    results = path("--bench-results", "bench_results")
    repo = path("--bench-curator-repo", "bench_curator_repo")
    overlays = [Path(os.path.normpath(working_dir / given)) for given in config.getoption("--bench-matrix")]
    return Settings(
        benchmark=config.getoption("--benchmark"),
        patterns=tuple(config.getini("bench_files")),
        asks=_asks(config),
        overlays=(*config.getini("bench_matrix"), *overlays),
        datasets_file=path("--bench-datasets", "bench_datasets"),
        session=_session_name(config.getoption("--bench-session"), invocation),
        invocation=invocation,
        database=_database(config),
        results_dir=str(results) if results else None,
        sinks=tuple(config.getoption("--bench-sink") or config.getini("bench_sink")),
        sink_grace_s=_number(config, "--bench-sink-grace", "seconds") or 0.0,
        reason=config.getoption("--bench-reason") or config.getini("bench_reason") or None,
        viewer_url=config.getoption("--bench-viewer-url") or config.getini("bench_viewer_url") or None,
        strict=config.getoption("--bench-strict") or config.getini("bench_strict"),
        entries=_split_names(config.getoption("--bench-entries")),
        fail_on_regression=_fail_on(config) == "regression",
        confirm=int(_number(config, "--bench-confirm", "a whole number, 0 or more", whole=True) or 0),
        confirm_budget_s=_number(config, "--bench-confirm-budget", "seconds"),
        inconclusive_fails=_inconclusive(config) == "fail",
        curator_repo=str(repo) if repo else None,
        working_dir=working_dir,
        progress_every_s=_number(config, "--bench-progress", "seconds, or 0 for never") or 0.0,
        fleet=_fleet_options(config),
        resume=config.getoption("bench_resume"),
        names_session=config.getoption("--bench-session") is not None,
        runs=_runs(config),
        copy_to=_copy_to(config, path),
    )


_ONLY_WITH_A_FLEET = (
    *("--bench-fleet-cpus", "--bench-gpus", "--bench-max-runs", "--bench-runs-per-gpu", "--bench-fleet-wait"),
)
_NUMBERS_IN_INI = frozenset(["bench_sink_grace", "bench_progress", "bench_confirm", "bench_confirm_budget"])
_ONLY_LOCAL = ("--bench-fleet-cpus", "--bench-gpus")


def _fleet_options(config: pytest.Config) -> FleetOptions | None:
    address = config.getoption("--bench-fleet") or config.getini("bench_fleet")
    said = [option for option in _ONLY_WITH_A_FLEET if config.getoption(option) is not None]
    if not address:
        if said:
            raise BenchError(f"{said[0]} has an effect only with --bench-fleet")
        return None
    if config.getoption("tx", None):
        raise BenchError(
            "-n with --bench-fleet: the fleet runs entries side by side itself, without workers of pytest-xdist;"
            " --bench-max-runs says how many at once"
        )
    if address != "local" and (local := [option for option in said if option in _ONLY_LOCAL]):
        raise BenchError(f"{local[0]} is for --bench-fleet local only, because an existing cluster keeps its resources")
    if not _FLEET.match(address):
        raise BenchError(f"--bench-fleet: found {address!r}, expected local, auto, HOST:PORT or ray://HOST:PORT")
    if address.startswith("ray://") and importlib.util.find_spec("grpc") is None:
        raise MissingExtra(f"--bench-fleet {address}", "fleet")
    return FleetOptions(
        address=address,
        cpus=_count(config, "--bench-fleet-cpus"),
        gpus=_gpus(config.getoption("--bench-gpus")),
        max_runs=_count(config, "--bench-max-runs"),
        runs_per_gpu=_count(config, "--bench-runs-per-gpu") or 1,
        wait_s=_number(config, "--bench-fleet-wait", "seconds") or 0.0,
    )


def _copy_to(config: pytest.Config, path: Callable[[str, str], Path | None]) -> str | None:
    said = config.getoption("--bench-copy-to") or config.getini("bench_copy_to")
    return said if "://" in said else str(path("--bench-copy-to", "bench_copy_to") or "") or None


def _runs(config: pytest.Config) -> int:
    runs = _count(config, "--bench-runs") or 1
    if runs > 1 and (config.getoption("--bench-fleet") or config.getini("bench_fleet")):
        raise BenchError("--bench-runs and --bench-fleet cannot be combined: runs in a row, or side by side")
    return runs


def _count(config: pytest.Config, option: str) -> int | None:
    number = _number(config, option, "a whole number of at least 1", whole=True, at_least=1)
    return None if number is None else int(number)


def _number(
    config: pytest.Config, option: str, expected: str, *, whole: bool = False, at_least: float = 0
) -> float | None:
    """Return the number of an option, or else of its ini key; None if neither is set."""
    name, said = option, config.getoption(option)
    if said is None and (key := option.removeprefix("--").replace("-", "_")) in _NUMBERS_IN_INI:
        name, said = key, str(config.getini(key))
    if said in (None, ""):
        return None
    pattern = r"[0-9]{1,9}" if whole else r"[0-9]{1,9}(\.[0-9]+)?"
    if not re.fullmatch(pattern, said) or float(said) < at_least:
        raise BenchError(f"{name}: found {said!r}, expected {expected}")
    return float(said)


def _gpus(said: str | None) -> tuple[str, ...] | None:
    """Return the GPUs as in CUDA_VISIBLE_DEVICES: numbers, or ids as `nvidia-smi -L` shows them."""
    if said is None:
        return None
    words = tuple(word.strip() for word in said.split(",") if word.strip())
    wrong = [word for word in words if not re.fullmatch(r"[0-9]+|(GPU|MIG)-[0-9A-Za-z/-]+", word)]
    if not words or wrong or len(set(words)) < len(words):
        raise BenchError(f"--bench-gpus: found {said!r}, expected different numbers or ids of GPUs, such as 0,2,3")
    return words


def _database(config: pytest.Config) -> str:
    """Return the database of --benchmark-db, or else the one `curator-bench` finds by the same rule."""
    working_dir = config.invocation_params.dir
    said: str | None = config.getoption("--benchmark-db")
    if said:
        return said if "://" in said else os.path.normpath(working_dir / os.path.expanduser(said))
    return database_of(rootdir(config), str(config.getini("benchmark_db")), os.environ, working_dir)


def _fail_on(config: pytest.Config) -> str:
    said = str(config.getoption("--bench-fail-on") or config.getini("bench_fail_on"))
    if said and said not in _FAIL_ON:
        raise BenchError(f"bench_fail_on: found {said!r}, expected {' or '.join(_FAIL_ON)}")
    return said


def _inconclusive(config: pytest.Config) -> str:
    said = str(config.getoption("--bench-inconclusive") or config.getini("bench_inconclusive"))
    if said not in _INCONCLUSIVE:
        raise BenchError(f"bench_inconclusive: found {said!r}, expected {' or '.join(_INCONCLUSIVE)}")
    return said


def _split_names(given: list[str]) -> tuple[str, ...]:
    return tuple(name.strip() for text in given for name in text.split(",") if name.strip())


def session_name_now() -> str:
    """Return a session name from the current time. Sessions that begin in the same minute also get a number."""
    return f"{datetime.now(UTC):%Y-%m-%d_%H%M}"


def _session_name(given: str | None, invocation: str) -> str:
    if given is None:
        return f"{session_name_now()}_{invocation[:6]}"
    if not is_safe_name(given):
        raise BenchError(
            f"--bench-session: found {given!r}, expected letters, digits and _ . - + @, as in a folder's name"
        )
    return given
