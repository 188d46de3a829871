"""env/HOST.json and its companions: once per session and machine, by whoever runs there first."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

from curator_bench.provenance.environment import capture, write
from curator_bench.values import Plan

_CAPTURED = "captured:"


def ensure(plan: Plan) -> None:
    """Written before the first run, so that it is there also when that run never ends; again for further subjects."""
    env_dir = Path(plan.session_dir, "env")
    env_dir.mkdir(parents=True, exist_ok=True)
    with (env_dir / f".{os.uname().nodename}").open("a+") as note:
        fcntl.flock(note, fcntl.LOCK_EX)
        note.seek(0)
        known = note.read().split()
        if known and not set(plan.subjects) - set(known):
            return
        subjects = sorted({*known, *plan.subjects} - {_CAPTURED})
        write(capture(subjects, Path(plan.working_dir)), env_dir)
        note.write("\n".join([_CAPTURED, *subjects]) + "\n")
