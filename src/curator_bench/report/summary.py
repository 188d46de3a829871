"""The end of a session: the table on the terminal, and summary.json."""

from __future__ import annotations

import html
import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

from curator_bench.files import safe_files
from curator_bench.files.codec import json_text, strict
from curator_bench.metric_names import in_order
from curator_bench.report.pivot import axes_of
from curator_bench.report.session_runs import RESULTS, SUMMARY, merged, read_run, runs_of
from curator_bench.values import MACHINE, OpenFinding, RunRecord, Scalar, Verdict
from curator_bench.words import printable, readable, readable_seconds

SCHEMA_VERSION = 1
_MOST_METRICS = 3
_MOST_ROWS = 60
_MOST_NAMED = 5
_LONGEST_TEXT = 24
_HUGE = 1e15
_NOBODY: Mapping[str, Sequence[str]] = {}
_SAID = ("regression", "improvement", "inconclusive", "drift")
"""Words of gates that are shown beside their metric."""
_PREFERRED = ("throughput", "per_sec", "per_s", "time", "_s")
_OWN = frozenset(
    [
        *("exec_time_s", "exit_code", "peak_memory_bytes", "average_memory_bytes", "cpu_time_s"),
        *("dask_tasks", "dask_workers", "dask_threads", "dask_version", "distributed_version"),
        *("compute_time_s", "serializing_time_s", "transfer_time_s", "ray_tasks", "ray_tasks_without_times"),
        *("disk_spill_time_s", "spilled_bytes", "restored_bytes", "peak_object_store_bytes"),
        *("ray_retries", "ray_failures"),
        *("is_success", "success"),
    ]
)


def summary_table(runs: Sequence[RunRecord], named: Mapping[str, Sequence[str]] = _NOBODY) -> list[str]:
    """Return a table of entry, verdict, measured time and the most important metrics, each with the word of its gate.

    Metrics with a requirement come first, then those sinks name (`named`, by node id), then speeds.
    """
    rows = [("ENTRY", "VERDICT", "DURATION", "METRICS")]
    rows += [_row(run, named.get(run.nodeid, ())) for run in runs[:_MOST_ROWS]]
    widths = [max(len(row[column]) for row in rows) for column in range(3)]
    lines = [
        "  ".join([*(cell.ljust(w) for cell, w in zip(row[:3], widths, strict=True)), row[3]]).rstrip() for row in rows
    ]
    if len(runs) > _MOST_ROWS:
        lines.append(f"… and {len(runs) - _MOST_ROWS} more; summary.json has them all")
    return [*lines, *warning_lines(runs), *_confirming_line(runs)]


def lost_lines(runs: Sequence[RunRecord]) -> list[str]:
    """Return a line about runs whose files were removed in the meantime, singly or with the whole session."""
    ran = [run for run in runs if run.matrix and run.verdict != Verdict.SKIPPED]
    lost = [run for run in ran if not safe_files.is_file(Path(run.directory, RESULTS))]
    if not lost:
        return []
    names = ", ".join(run.name for run in lost[:_MOST_NAMED]) + (", …" if len(lost) > _MOST_NAMED else "")
    whose = "1 run are gone: its folder was" if len(lost) == 1 else f"{len(lost)} runs are gone: their folders were"
    return [printable(f"the files of {whose} removed after {'it' if len(lost) == 1 else 'they'} had ended: {names}")]


def warning_lines(runs: Sequence[RunRecord]) -> list[str]:
    """Return the warnings of runs, the inconclusive gates of runs that passed, and how many such runs there are."""
    lines = [f"warning: {run.name}: {text}" for run in runs for text in run.warnings]
    open_gates = [(run, check) for run in runs if run.passed for check in run.inconclusive]
    lines += [
        f"warning: {run.name}: {check.metric} {check.bound} is inconclusive: {check.note}" for run, check in open_gates
    ]
    if open_gates:
        count = len({run.nodeid for run, _ in open_gates})
        lines.append(f"{count} run{'s' if count > 1 else ''} passed with inconclusive gates")
    return list(map(printable, lines))


def _confirming_line(runs: Sequence[RunRecord]) -> list[str]:
    seconds = [run.confirming_s for run in runs if run.confirming_s]
    if not seconds:
        return []
    entries = "1 entry was" if len(seconds) == 1 else f"{len(seconds)} entries were"
    return [f"{entries} measured again for gates, which took {readable_seconds(sum(seconds))}"]


def _row(run: RunRecord, named: Sequence[str]) -> tuple[str, str, str, str]:
    return run.name, str(run.verdict), readable_seconds(run.measured_s), _metrics(run, named)


def _metrics(run: RunRecord, named: Sequence[str]) -> str:
    required = [check.metric for check in run.requirements if not check.missing]
    names = dict.fromkeys([*required, *named, *_shown_metrics(run.metrics)])
    chosen = [name for name in names if name in run.metrics and name not in ("is_success", "success")][:_MOST_METRICS]
    words = {check.metric: f" ({check.says})" for check in run.requirements if check.says in _SAID}
    return printable(", ".join(f"{name}={_short(run.metrics[name])}{words.get(name, '')}" for name in chosen))


def html_lines(run: RunRecord) -> list[str]:
    """Return the verdict and the metrics of a run for another plugin's page, with HTML's special characters escaped."""
    shown = {name: value for name, value in run.metrics.items() if not name.startswith(MACHINE)}
    lines = [f"{run.name}: {run.verdict} in {readable_seconds(run.measured_s)}"]
    lines += [f"    {name} = {readable(name, strict(value))}" for name, value in shown.items()]
    return [*(html.escape(printable(line)) for line in lines), ""]


def _shown_metrics(metrics: Mapping[str, Scalar]) -> list[str]:
    own = [name for name in in_order(metrics, ()) if name not in _OWN and not name.startswith("task_")]
    numbers = [name for name in own if _is_number(metrics[name])]
    return sorted(numbers, key=lambda name: not any(word in name for word in _PREFERRED))


def _is_number(value: Scalar) -> bool:
    return isinstance(value, int) or (isinstance(value, float) and math.isfinite(value))


def _short(value: Scalar) -> str:
    if isinstance(value, bool) or not isinstance(value, int | float) or not _is_number(value):
        text = str(strict(value))
        return text if len(text) <= _LONGEST_TEXT else text[: _LONGEST_TEXT - 1] + "…"
    if isinstance(value, int) and abs(value) < _HUGE:
        return f"{value:,}"
    return f"{value:,.0f}" if 10_000 <= abs(value) < _HUGE else f"{value:,.4g}"


def finding_lines(findings: Sequence[OpenFinding]) -> list[str]:
    """Return a line for each open finding, the newest first, which a gate of this invocation may not see any more."""
    lines = [f"open regression: {one.line}" for one in findings[:_MOST_NAMED]]
    more = len(findings) - len(lines)
    beside = f"… and {more} more; " if more > 0 else ""
    return [*map(printable, lines), f"{beside}`curator-bench regressions` says more"] if lines else []


def write_summary(session_dir: Path, runs: Sequence[RunRecord], findings: Sequence[OpenFinding] = ()) -> None:
    """Write summary.json: this invocation's runs, merged with those of earlier ones of the session."""
    path = session_dir / SUMMARY
    document = summary_of(session_dir.name, merged([*runs_of(session_dir), *runs]), findings)
    safe_files.write_text(path, json_text(document))


def summary_of(session: str, runs: Sequence[RunRecord], findings: Sequence[OpenFinding] = ()) -> dict[str, Any]:
    """Return counts and times of all runs, per entry and per axis value, with open findings, failures and every run."""
    failed = _failures(runs)
    return {
        "schema_version": SCHEMA_VERSION,
        "session": session,
        "counts": _counts(runs),
        "total": _total(runs),
        "entries": {entry: _total(group) for entry, group in _by("entry", runs).items()},
        "axes": {axis: {value: _total(group) for value, group in _by(axis, runs).items()} for axis in axes_of(runs)},
        "failures_by_category": dict(Counter(failure["category"] for failure in failed)),
        "failures": failed,
        "findings": list(findings),
        "runs": list(runs),
    }


def _failures(runs: Iterable[RunRecord]) -> list[dict[str, Any]]:
    """Return every failed run in short, with its category."""
    kept = ("name", "uid", "verdict", "error", "directory", "log_path", "host")
    return [
        {**{key: strict(getattr(run, key)) for key in kept}, "category": run.category, "axes": dict(run.axes)}
        for run in runs
        if run.category is not None
    ]


def _counts(runs: Sequence[RunRecord]) -> dict[str, int]:
    return dict(Counter(str(run.verdict) for run in runs))


def _total(runs: Sequence[RunRecord]) -> dict[str, Any]:
    return {"runs": len(runs), "counts": _counts(runs), "duration_s": sum(run.duration_s for run in runs)}


def _by(axis: str, runs: Iterable[RunRecord]) -> dict[str, list[RunRecord]]:
    """Group the runs by their value of an axis. Runs without that axis are left out."""
    found: dict[str, list[RunRecord]] = defaultdict(list)
    for run in runs:
        value = run.entry or run.name if axis == "entry" else run.axes.get(axis)
        if value is not None:
            found[value].append(run)
    return found


def read_results(directory: Path, since: datetime, below: Path | None = None) -> RunRecord | None:
    """Return the run in results.json if it began at `since` or later."""
    run = read_run(directory / RESULTS, below)
    try:
        return run if run is not None and datetime.fromisoformat(run.started_at) >= since else None
    except (ValueError, TypeError):  # no time, or one without a time zone
        return None
