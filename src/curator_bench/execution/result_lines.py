"""ENTRY/results.jsonl: one line for each repeat of a judged run, or one line for a run without repeats."""

from __future__ import annotations

from pathlib import Path

from curator_bench.files.json_files import append_json_line
from curator_bench.values import Repeat, RunRecord

RESULT_LINES = "results.jsonl"


def add_lines(entry_dir: Path, run: RunRecord, *, session_dir: Path) -> None:
    """Append the run's lines. Call it last, because they are final.

    No link is followed from the folder `session_dir` on.
    """
    for repeat in run.repeats or (None,):
        append_json_line(entry_dir / RESULT_LINES, _line(run, repeat), below=session_dir)


def _line(run: RunRecord, repeat: Repeat | None) -> dict[str, object]:
    return {
        "uid": run.uid,
        "session": run.session,
        "name": run.name,
        "attempt": run.attempt,
        "repeat": repeat.index if repeat else None,
        "ended_at": (repeat.ended_at if repeat else "") or run.ended_at,
        "verdict": str(run.verdict),
        "error": run.error,
        "exit_code": repeat.exit_code if repeat else run.exit_code,
        "exec_time_s": repeat.exec_time_s if repeat else None,
        "params": dict(run.params),
        "metrics": dict(repeat.metrics) if repeat else {},
    }
