"""The command-line and ini options of this plugin, as `pytest --help` shows them."""

from __future__ import annotations

import pytest

from curator_bench.options.rootdir import DATABASE
from curator_bench.options.settings import DISTURBED, FAIL_ON, INCONCLUSIVE, PROFILE_ON

DEFAULT_PATTERNS = ("*matrix.yaml", "*matrix.yml", "*benchmark.yaml", "*benchmark.yml")


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
    _add_profile_options(parser.getgroup("curator-bench-profiles", "benchmarks: profiles"))
    _add_fleet_options(parser.getgroup("curator-bench-fleet", "benchmarks: the fleet"))
    parser.addini("bench_files", "files collected as matrices in directories", type="args", default=DEFAULT_PATTERNS)
    parser.addini(
        "bench_collect",
        "when a plain `pytest` runs the entries of matrices: asked (only if named or selected) or always",
        default="asked",
    )
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
    parser.addini("bench_disturbed", "as --bench-disturbed", default="apart")
    parser.addini("bench_inconclusive", "as --bench-inconclusive", default="pass")
    parser.addini(
        "bench_machine",
        "name of the kind of machine that runs are measured on (default: an id made from the hardware)",
        default="",
    )
    parser.addini("bench_profile", "as --bench-profile", type="args", default=[])
    parser.addini("bench_profile_on", "as --bench-profile-on", default="always")
    parser.addini("bench_profile_native", "as --bench-profile-native", type="bool", default=False)
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
    group.addoption(
        "--bench-session-uid",
        metavar="UID",
        help="uid of the session of --bench-session, where jobs on several machines share it (`curator-bench jobs`)",
    )
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


def _add_profile_options(group: pytest.OptionGroup) -> None:
    group.addoption(
        "--bench-profile",
        action="append",
        default=[],
        metavar="NAME",
        help="run each entry once more under this profiler, in a run that is not recorded: py-spy (where time goes),"
        " memray (where memory goes), or your own (repeatable; none: no profiler)",
    )
    group.addoption(
        "--bench-profile-on",
        choices=PROFILE_ON,
        help="profile every entry, or only those whose regression has been confirmed (always)",
    )
    group.addoption("--bench-profile-native", action="store_true", help="profile native code, too, by function")


def _add_gate_options(group: pytest.OptionGroup) -> None:
    group.addoption(
        "--bench-fail-on",
        choices=FAIL_ON,
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
        "--bench-disturbed",
        choices=DISTURBED,
        help="runs during which the machine did something else: no part of history, or as all others (apart)",
    )
    group.addoption(
        "--bench-inconclusive",
        choices=INCONCLUSIVE,
        help="verdict of a run whose gate is inconclusive: passed with a warning, or failed (pass)",
    )
