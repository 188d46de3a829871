"""Results of runs that never executed their script, or that cannot report themselves."""

from __future__ import annotations

import socket
from contextlib import suppress
from datetime import UTC, datetime

from curator_bench.execution.directories import attempt_top, prepare
from curator_bench.values import Cause, Plan, RunResult, Verdict


def failed_before_it_began(plan: Plan, error: str, cause: Cause) -> RunResult:
    """Make an `error` result. The folder is cleared, so that an earlier run's files do not count."""
    with suppress(OSError):
        prepare(plan, attempt_top(plan))
    return answer_for(plan, Verdict.ERROR, error, cause, began=datetime.now(UTC))


def answer_for(
    plan: Plan, verdict: Verdict, error: str, cause: Cause | None, began: datetime, host: str = ""
) -> RunResult:
    """Make the result of a run that cannot report itself."""
    ended = datetime.now(UTC)
    return RunResult(
        name=plan.name,
        verdict=verdict,
        started_at=began.isoformat(timespec="milliseconds"),
        ended_at=ended.isoformat(timespec="milliseconds"),
        duration_s=(ended - began).total_seconds(),
        error=plan.mask.hide(error),
        cause=cause,
        attempt=plan.attempt,
        host=host or socket.gethostname(),
    )
