"""env/HOST.json and its companions: once per session and machine, by whoever runs there first."""

from __future__ import annotations

import os
from pathlib import Path

from curator_bench.measure.environment import capture, write
from curator_bench.values import Plan


def ensure(plan: Plan) -> None:
    """Written before the first run, so that it is there also when that run never ends."""
    env_dir = Path(plan.session_dir, "env")
    env_dir.mkdir(parents=True, exist_ok=True)
    try:
        os.close(os.open(env_dir / f".{os.uname().nodename}", os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        return
    write(capture(plan.subjects, Path(plan.working_dir)), env_dir)
