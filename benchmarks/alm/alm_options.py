"""The options of the ALM benchmark, from its command line or from an entry of a matrix."""

from __future__ import annotations

import argparse
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from alm_windows import WindowSettings

ENGINES = {
    "builtin": ("processes", "ray_data", "ray_actors"),
    "nemo_curator": ("xenna", "ray_data", "ray_actors"),
    "plain_loop": ("processes",),
}


@dataclass(frozen=True, slots=True)
class Options:
    """What one run of the benchmark does."""

    benchmark_results_path: Path
    input_manifest: str
    engine: str
    executor: str
    repeat_factor: int
    windows: WindowSettings
    overlap_percentage: int
    output_path: str | None = None
    planted: Path | None = None
    processes: int = 1


def parse_options(words: Sequence[str]) -> Options:
    """The options of a command line; those of `--config FILE --entry NAME` come before what stands beside it."""
    parser = _parser()
    given, beside = _config_parser().parse_known_args(words)
    if given.config is None and given.entry is not None:
        parser.error("--entry is the name of an entry in the file of --config")
    if given.config is not None:
        beside = [*_words_of_entry(given.config, given.entry, beside, parser), *beside]
    found = vars(parser.parse_args(beside))
    found["engine"], found["executor"] = _engine_and_executor(found["engine"], found["executor"], parser)
    windows = WindowSettings(**{name: found.pop(name) for name in WindowSettings.__slots__})
    options = Options(windows=windows, **found)
    _check(options, parser)
    return options


def params_of(options: Options) -> dict[str, Any]:
    """What goes into params.json: the names of the command line."""
    names = [name for name in Options.__slots__ if name not in ("windows", "benchmark_results_path")]
    params = {name: getattr(options, name) for name in names}
    windows = {name: getattr(options.windows, name) for name in WindowSettings.__slots__}
    return {name: str(value) if isinstance(value, Path) else value for name, value in {**params, **windows}.items()}


def _parser() -> argparse.ArgumentParser:
    usual = WindowSettings()
    parser = argparse.ArgumentParser(
        prog="alm_pipeline.py",
        description="Audio Language Model curation: windows of talk from a manifest, without those that overlap.",
        epilog="--config FILE [--entry NAME] reads these options from the args of an entry in a matrix.",
        allow_abbrev=False,
    )
    add = parser.add_argument
    add("--benchmark-results-path", type=Path, required=True, help="folder for params.json, metrics.json, tasks.pkl")
    add("--input-manifest", type=_from_anywhere, required=True, help="a JSONL manifest: a path, or a URL fsspec knows")
    add("--engine", choices=ENGINES, help="builtin, unless the executor is one that only another engine has")
    executors = sorted({executor for all_of_it in ENGINES.values() for executor in all_of_it})
    add("--executor", choices=executors, help="who hands out the work; by default the engine's first")
    add("--repeat-factor", type=int, default=1, help="how often each entry is processed")
    add("--target-window-duration", type=float, default=usual.target_window_duration, help="seconds")
    add("--tolerance", type=float, default=usual.tolerance, help="what part of it a window may be longer or shorter")
    add("--min-sample-rate", type=int, default=usual.min_sample_rate, help="Hz")
    add("--min-bandwidth", type=int, default=usual.min_bandwidth, help="Hz, of each segment")
    add("--min-speakers", type=int, default=usual.min_speakers, help="in a window")
    add("--max-speakers", type=int, default=usual.max_speakers, help="in a window")
    add("--truncation", action=argparse.BooleanOptionalAction, default=True, help="cut the last segment to fit")
    add("--overlap-percentage", type=int, default=50, help="0 to 100; of the shorter window")
    add(
        "--output-path",
        type=_from_anywhere,
        help="a folder (or URL) for the curated manifest; by default nothing is kept",
    )
    add("--planted", type=Path, help="planted.json of make_manifest.py: then planted_entries_wrong is measured")
    add("--processes", type=int, default=_usable_cpus(), help="of the executor processes; by default one per CPU")
    return parser


def _usable_cpus() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _from_anywhere(path: str) -> str:
    """A path that leads to the same place from a worker, which may be in another directory."""
    return path if "://" in path else os.path.abspath(path)


def _config_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    parser.add_argument("--config", type=Path)
    parser.add_argument("--entry")
    return parser


def _engine_and_executor(engine: str | None, executor: str | None, parser: argparse.ArgumentParser) -> tuple[str, str]:
    having_it = [name for name, executors in ENGINES.items() if executor in (None, *executors)]
    engine = engine or having_it[0]
    if engine not in having_it:
        parser.error(f"the engine {engine} has no executor {executor}; it has {', '.join(ENGINES[engine])}")
    return engine, executor or ENGINES[engine][0]


def _check(options: Options, parser: argparse.ArgumentParser) -> None:
    if options.repeat_factor < 1:
        parser.error("--repeat-factor must be 1 or more")
    if options.processes < 1:
        parser.error("--processes must be 1 or more")
    if not 0 <= options.overlap_percentage <= 100:
        parser.error("--overlap-percentage must be from 0 to 100")
    if options.windows.target_window_duration <= 0:
        parser.error("--target-window-duration must be more than 0")
    usual = (options.windows, options.overlap_percentage) == (WindowSettings(), 50)
    if options.planted is not None and not usual:
        parser.error("--planted goes with the default options of windows and overlap only")


def _words_of_entry(
    config: Path, name: str | None, beside: Sequence[str], parser: argparse.ArgumentParser
) -> list[str]:
    """The args of an entry, filled in as for a run; datasets that are made on first use are made."""
    try:
        from curator_bench.errors import BenchError
        from curator_bench.execution.datasets import ensure
        from curator_bench.matrix import LoadRequest, command_of, load
    except ImportError:
        parser.error("--config needs curator-bench in this environment")
    import tempfile

    folder = _results_path_among(beside) or tempfile.mkdtemp(prefix="alm_benchmark_results_")
    try:
        matrix = load(LoadRequest(files=(config.absolute(),), variables=os.environ))
        entry = _pick(matrix.entries, name, parser)
        if entry.problems:
            parser.error("; ".join(entry.problems))
        command = command_of(entry, os.environ)
        for need in command.datasets:
            ensure(need, env=os.environ, session_dir=Path(folder))
    except BenchError as error:
        parser.error(str(error))
    words = [word.replace("{session_entry_dir}", folder) for word in command.args]
    return words if _results_path_among(words) else ["--benchmark-results-path", folder, *words]


def _results_path_among(words: Sequence[str]) -> str | None:
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    parser.add_argument("--benchmark-results-path")
    found: str | None = parser.parse_known_args(words)[0].benchmark_results_path
    return found


def _pick(entries: Sequence[Any], name: str | None, parser: argparse.ArgumentParser) -> Any:
    """The entry of this name or id; without a name the only one that reads a manifest."""
    if name is None:
        found = [entry for entry in entries if any("--input-manifest" in word for word in entry.args)]
    else:
        found = [entry for entry in entries if entry.id == name] or [entry for entry in entries if entry.name == name]
    if len(found) != 1:
        candidates = ", ".join(entry.id for entry in found or entries)
        parser.error(f"--entry must name one of: {candidates}")
    return found[0]
