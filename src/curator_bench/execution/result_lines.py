"""ENTRY/results.jsonl: a line for each repeat of a run that has been judged; one for a run that came to no repeat."""

from __future__ import annotations

from pathlib import Path

from curator_bench.execution.files import append_json_line
from curator_bench.values import Repeat, RunResult, Verdict

RESULT_LINES = "results.jsonl"


def add_lines(entry_dir: Path, result: RunResult, verdict: Verdict, *, session_dir: Path, **whose: str) -> None:
    """`session_dir`: the folder from which on no link is followed. `whose`: the uid of the run and its session.

    To be called last: what stands here is final.
    """
    for repeat in result.repeats or (None,):
        append_json_line(entry_dir / RESULT_LINES, {**whose, **_line(result, verdict, repeat)}, below=session_dir)


def _line(result: RunResult, verdict: Verdict, repeat: Repeat | None) -> dict[str, object]:
    return {
        "name": result.name,
        "attempt": result.attempt,
        "repeat": repeat.index if repeat else None,
        "ended_at": (repeat.ended_at if repeat else "") or result.ended_at,
        "verdict": str(verdict),
        "error": result.error,
        "exit_code": repeat.exit_code if repeat else result.exit_code,
        "exec_time_s": repeat.exec_time_s if repeat else None,
        "params": dict(result.params),
        "metrics": dict(repeat.metrics) if repeat else {},
    }
