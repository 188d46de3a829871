"""One run from its plan to its result. Whether there is another attempt is for whoever asked for this one."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path

from curator_bench.execution.attempt import Attempt
from curator_bench.execution.workbench import Workbench
from curator_bench.values import Plan, RunResult


class Interrupted(KeyboardInterrupt):
    """Ctrl-C in the middle of a run, which has been cleaned up; `result` is what it was until then."""

    def __init__(self, result: RunResult) -> None:
        super().__init__()
        self.result = result


def run_entry(plan: Plan, bench: Workbench | None = None) -> RunResult:
    """Runs a plan here. Nothing of it is running when this returns, but for standing clusters of `bench`.

    Requirements are not judged: `verdict` is about how the script and the bench did.
    """
    with nullcontext(bench) if bench else Workbench(Path(plan.session_dir)) as workbench:
        assert workbench
        attempt = Attempt(plan, workbench)
        try:
            return attempt.run()
        except KeyboardInterrupt as stop:
            raise Interrupted(attempt.interrupted()) from stop
