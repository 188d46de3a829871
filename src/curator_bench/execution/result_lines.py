"""ENTRY/results.jsonl: a line for each repeat, and one for each attempt whose end no line of a repeat tells."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from curator_bench.execution.files import append_json_line
from curator_bench.values import Plan, Verdict

if TYPE_CHECKING:
    from curator_bench.execution.script import Execution

RESULT_LINES = "results.jsonl"


def add_line(
    plan: Plan,
    verdict: Verdict,
    error: str,
    ended_at: str,
    repeat: int | None = None,
    execution: Execution | None = None,
) -> None:
    """`repeat` and `execution`: of a repeat only. In `error` nothing is masked any more."""
    line = {
        "name": plan.name,
        "uid": plan.uid,
        "session": plan.session,
        "attempt": plan.attempt,
        "repeat": repeat,
        "ended_at": ended_at,
        "verdict": verdict,
        "error": error,
        "exit_code": execution.exit_code if execution else None,
        "exec_time_s": execution.seconds if execution else None,
        "params": execution.params if execution else {},
        "metrics": execution.metrics if execution else {},
    }
    append_json_line(Path(plan.entry_dir, RESULT_LINES), line)
