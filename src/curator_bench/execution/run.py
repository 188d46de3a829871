"""One run from its plan to its result. The caller decides about further attempts."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path

from curator_bench.execution.attempt import Attempt
from curator_bench.execution.workbench import Workbench
from curator_bench.values import Plan, RunResult


class Interrupted(KeyboardInterrupt):
    """Ctrl-C stopped a run, which has been cleaned up. `result` is its result until then."""

    def __init__(self, result: RunResult) -> None:
        super().__init__()
        self.result = result


def run_entry(plan: Plan, bench: Workbench | None = None) -> RunResult:
    """Run a plan in this process. When it returns, none of its processes run, except standing clusters of `bench`.

    Requirements are not judged: `verdict` covers the script and the bench only.
    """
    with nullcontext(bench) if bench else Workbench(Path(plan.session_dir)) as workbench:
        assert workbench
        attempt = Attempt(plan, workbench)
        try:
            return attempt.run()
        except KeyboardInterrupt as stop:
            raise Interrupted(attempt.interrupted()) from stop
