"""The settings of a pytest process: every command-line and ini option, read once."""

from __future__ import annotations

import importlib.util
import os
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from curator_bench.errors import BenchError, MissingExtra
from curator_bench.files.names import is_safe_name
from curator_bench.options.rootdir import database_of, refuse_unread_ini, rootdir

_PORT = r"([1-9]\d{0,3}|[1-5]\d{4}|6[0-4]\d{3}|65[0-4]\d{2}|655[0-2]\d|6553[0-5])"
_FLEET = re.compile(rf"(local|auto|(ray://)?\S+:{_PORT})\Z")
_COLLECT = ("asked", "always")
_UID = re.compile(r"[0-9A-Za-z_-]{8,64}")
HUNT_VARIABLE = "CURATOR_BENCH_HUNT"
"""The environment variable by which bisecting and A/B comparisons tell pytest what its runs are recorded for."""
HUNT_DATABASE_VARIABLE = "CURATOR_BENCH_HUNT_DB"
"""The environment variable by which they, and a nightly, name the database. Its URL may have a password, and other
users can read arguments."""
FAIL_ON = ("regression",)
DISTURBED = ("apart", "count")
PROFILE_ON = ("always", "regression")
INCONCLUSIVE = ("pass", "fail")


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
    session_uid: str | None = None
    """The uid of the session where several machines share it; None leaves it to the session's folder."""
    runs: int = 1
    """The number of runs of each entry, one after the other."""
    confirm_budget_s: float | None = None
    """The longest time in seconds for all repeated measurements; None derives it from the session's length."""
    inconclusive_fails: bool = False
    """True if a run fails when a gate is inconclusive."""
    disturbed_count: bool = False
    """True if runs count although the machine did something else meanwhile."""
    profilers: tuple[str, ...] = ()
    """The profilers under which each entry runs once more."""
    profile_on: str = "always"
    """When an entry is profiled: `always`, or `regression` if one of its gates has failed."""
    profile_native: bool = False
    """True if profiles show functions of native code, too."""
    copy_to: str | None = None
    """The folder or URL that the runs' folders are copied to."""

    machine: str | None = None
    """The name of the kind of machine that runs are measured on; None tells kinds apart by hardware."""
    hunt: str = ""
    """Purpose of the runs, as in `values.Hunt`; empty if they are history."""

    def with_session(self, session: str) -> Settings:
        return replace(self, session=session)


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

    invocation = os.urandom(8).hex()  # the module secrets would cost every start of pytest 3 ms
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
        viewer_url=_viewer_url(config),
        strict=config.getoption("--bench-strict") or config.getini("bench_strict"),
        entries=_split_names(config.getoption("--bench-entries")),
        fail_on_regression=_fail_on(config) == "regression",
        confirm=int(_number(config, "--bench-confirm", "a whole number, 0 or more", whole=True) or 0),
        confirm_budget_s=_number(config, "--bench-confirm-budget", "seconds"),
        inconclusive_fails=_inconclusive(config) == "fail",
        disturbed_count=_disturbed(config) == "count",
        curator_repo=str(repo) if repo else None,
        working_dir=working_dir,
        progress_every_s=_number(config, "--bench-progress", "seconds, or 0 for never") or 0.0,
        fleet=_fleet_options(config),
        resume=config.getoption("bench_resume"),
        names_session=config.getoption("--bench-session") is not None,
        session_uid=_session_uid(config),
        runs=_runs(config),
        copy_to=_copy_to(config, path),
        profilers=_profilers(config),
        profile_on=_profile_on(config),
        profile_native=config.getoption("--bench-profile-native") or config.getini("bench_profile_native"),
        machine=_machine(config),
        hunt=_hunt(os.environ.get(HUNT_VARIABLE, "")),
    )


def _viewer_url(config: pytest.Config) -> str | None:
    """Return the address of the option, or else of the ini key."""
    given = {
        "--bench-viewer-url": config.getoption("--bench-viewer-url"),
        "bench_viewer_url": config.getini("bench_viewer_url"),
    }
    if not any(given.values()):
        return None
    from curator_bench.matrix import viewer  # importing `matrix` would double the time to start

    for source, url in given.items():
        if url and (wrong := viewer.wrong_with(url)):
            raise BenchError(f"{source}: {wrong}")
    return next(filter(None, given.values()), None)


def _hunt(said: str) -> str:
    if said:
        from curator_bench.values import Hunt

        if said not in list(Hunt):
            raise BenchError(f"{HUNT_VARIABLE}: found {said!r}, expected {', '.join(Hunt)}, or no such variable")
    return said


_MACHINE_VARIABLE = "CURATOR_BENCH_MACHINE"


def _machine(config: pytest.Config) -> str | None:
    """Return the name in the environment variable, or else in the ini key."""
    given = {_MACHINE_VARIABLE: os.environ.get(_MACHINE_VARIABLE), "bench_machine": str(config.getini("bench_machine"))}
    if not any(given.values()):
        return None
    from curator_bench.values.machines import is_machine_name  # importing `values` would double the time to start

    for source, name in given.items():
        if name and not is_machine_name(name):
            expected = "a name of up to 40 letters, digits, dots, dashes and underscores, and no computed id"
            raise BenchError(f"{source}: found {name!r}, expected {expected}")
    return next(filter(None, given.values()), None)


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
            " --bench-max-runs sets their number"
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


def _profilers(config: pytest.Config) -> tuple[str, ...]:
    """Return the profilers of the option, or else of the ini key, which a bisect or an A/B comparison ignores."""
    in_ini = [] if os.environ.get(HUNT_VARIABLE) else config.getini("bench_profile")
    return profiler_names(config.getoption("--bench-profile") or in_ini)


def profiler_names(said: Iterable[str]) -> tuple[str, ...]:
    """Return the names of profilers in an option that was given several times, or with commas."""
    names = tuple(dict.fromkeys(name for text in said for name in text.split(",") if name))
    return () if names == ("none",) else names


def _profile_on(config: pytest.Config) -> str:
    said = str(config.getoption("--bench-profile-on") or config.getini("bench_profile_on"))
    if said not in PROFILE_ON:
        raise BenchError(f"bench_profile_on: found {said!r}, expected {' or '.join(PROFILE_ON)}")
    return said


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
    said: str | None = os.environ.get(HUNT_DATABASE_VARIABLE) or config.getoption("--benchmark-db")
    if said:
        return said if "://" in said else os.path.normpath(working_dir / os.path.expanduser(said))
    return database_of(rootdir(config), str(config.getini("benchmark_db")), os.environ, working_dir)


def _fail_on(config: pytest.Config) -> str:
    said = str(config.getoption("--bench-fail-on") or config.getini("bench_fail_on"))
    if said and said not in FAIL_ON:
        raise BenchError(f"bench_fail_on: found {said!r}, expected {' or '.join(FAIL_ON)}")
    return said


def _inconclusive(config: pytest.Config) -> str:
    said = str(config.getoption("--bench-inconclusive") or config.getini("bench_inconclusive"))
    if said not in INCONCLUSIVE:
        raise BenchError(f"bench_inconclusive: found {said!r}, expected {' or '.join(INCONCLUSIVE)}")
    return said


_DISTURBED_VARIABLE = "CURATOR_BENCH_DISTURBED"


def _disturbed(config: pytest.Config) -> str:
    """Return what the option says, or else the environment variable, or else the ini key."""
    of_machine, of_project = os.environ.get(_DISTURBED_VARIABLE), str(config.getini("bench_disturbed"))
    said = str(config.getoption("--bench-disturbed") or of_machine or of_project)
    if said not in DISTURBED:
        source = _DISTURBED_VARIABLE if of_machine else "bench_disturbed"
        raise BenchError(f"{source}: found {said!r}, expected {' or '.join(DISTURBED)}")
    return said


def _split_names(given: list[str]) -> tuple[str, ...]:
    return tuple(name.strip() for text in given for name in text.split(",") if name.strip())


def session_name_now() -> str:
    """Return a session name from the current time. Sessions that begin in the same minute also get a number."""
    return f"{datetime.now(UTC):%Y-%m-%d_%H%M}"


def _session_uid(config: pytest.Config) -> str | None:
    given: str | None = config.getoption("--bench-session-uid")
    if given is not None and not _UID.fullmatch(given):
        raise BenchError(f"--bench-session-uid: found {given!r}, expected 8 to 64 letters, digits, _ or -")
    if given is not None and config.getoption("--bench-session") is None:
        raise BenchError("--bench-session-uid has an effect only with --bench-session")
    return given


def _session_name(given: str | None, invocation: str) -> str:
    if given is None:
        return f"{session_name_now()}_{invocation[:6]}"
    if not is_safe_name(given):
        raise BenchError(
            f"--bench-session: found {given!r}, expected letters, digits and _ . - + @, as in a folder's name"
        )
    return given
