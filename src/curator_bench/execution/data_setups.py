"""Data setups: scripts that run once per session before its first run, in only one of its processes."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from curator_bench.errors import DatasetError
from curator_bench.execution.child import run_child
from curator_bench.files import safe_files
from curator_bench.files.json_files import log_tail, read_object, write_json
from curator_bench.files.locking import locked
from curator_bench.files.names import safe_name
from curator_bench.values import Plan, SetupNeed


def ensure(need: SetupNeed, plan: Plan, env: Mapping[str, str]) -> None:
    """Run the setup unless it has run in this session. A failed one is not repeated in the same invocation."""
    session_dir = Path(plan.session_dir)
    directory = session_dir / "data_setup" / safe_name(need.name)
    session_dir.mkdir(parents=True, exist_ok=True)
    safe_files.make_folder(directory, below=session_dir)
    if need.problems:
        raise DatasetError(f"the data setup {need.name} cannot run: {'; '.join(need.problems)}")
    with locked(directory / ".lock", below=session_dir) as lock:
        outcome = read_object(directory / "outcome.json", below=session_dir)
        is_this = outcome.get("command") == _shown(need, plan)
        if not is_this or (outcome["failed"] and outcome["invocation"] != plan.invocation):
            outcome = _run(need, plan, directory, env, lock.fileno())
    if outcome.get("failed"):
        log = directory / "stdouterr.log"
        lines = "\n".join(f"  {line}" for line in log_tail(log, plan.mask, below=session_dir))
        raise DatasetError(f"the data setup {need.name} failed ({outcome['failed']}). The end of {log}:\n{lines}")


def _shown(need: SetupNeed, plan: Plan) -> list[str]:
    return [plan.mask.hide(word) for word in need.command]


def _run(need: SetupNeed, plan: Plan, directory: Path, env: Mapping[str, str], lock: int) -> dict[str, Any]:
    """Run the setup's script. It inherits the lock, so if we are killed no other process starts before it has ended."""
    ended = run_child(
        need.command,
        env={**env, **need.env},
        log=directory / "stdouterr.log",
        below=Path(plan.session_dir),
        cwd=plan.working_dir,
        timeout_s=need.timeout_s,
        keep_open=[lock],
    )
    failed: str | bool = False
    if ended.exit_code != 0:
        failed = "its time was over" if ended.exit_code is None else f"exit code {ended.exit_code}"
    outcome = {
        "failed": failed,
        "invocation": plan.invocation,
        "command": _shown(need, plan),
        "seconds": round(ended.seconds, 3),
    }
    write_json(directory / "outcome.json", outcome, below=Path(plan.session_dir))
    return outcome
