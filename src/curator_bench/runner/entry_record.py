"""The database row of an entry's run, from its start to its teardown. No-op without --benchmark."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from curator_bench.fleet.messages import Where
from curator_bench.options.rootdir import name_in_project
from curator_bench.runner.recorder import recording_of
from curator_bench.runner.run_keys import DEFINITION
from curator_bench.store.records import RunEnd, end_of
from curator_bench.values import Entry, Plan, Run, RunRecord, Verdict

_UID = pytest.StashKey[str]()
"""The uid of the item's row; only with --benchmark."""


def start(item: pytest.Item, entry: Entry, plan: Plan, where: Where | None = None) -> None:
    """Write the row of a run that starts now. `where` is given in a fleet."""
    recording = recording_of(item.config)
    if recording is None:
        return
    run = Run(
        name=entry.id,
        entry=entry.name,
        nodeid=item.nodeid,
        uid=plan.uid,
        attempt=plan.attempt,
        started_at=datetime.now(UTC).isoformat(),
        file=path_of(item, entry),
        definition_hash=item.stash[DEFINITION].hash,
        host=where.host if where else "",
        machine_id=where.machine_id if where else "",
        gpus=where.gpus if where else (),
    )
    recording.start(run)
    item.stash[_UID] = run.uid


def path_of(item: pytest.Item, entry: Entry) -> str:
    """Return the file of an entry as the database knows it."""
    return name_in_project(entry.file.file, item.config)


def finish(item: pytest.Item, run: RunRecord) -> None:
    """Complete the row of a judged run."""
    recording = recording_of(item.config)
    if recording is not None and _UID in item.stash:
        recording.finish(item.stash[_UID], end_of(run))


def note_teardown(item: pytest.Item, outcome: str) -> None:
    """Note the outcome of the item's teardown, and complete the row of a run that was never judged."""
    recording = recording_of(item.config)
    if recording is None or _UID not in item.stash:
        return
    uid = item.stash[_UID]
    if recording.is_under_way(uid):
        error = "ended before it was judged: a fixture or a hook failed"
        recording.finish(uid, RunEnd(Verdict.ERROR, datetime.now(UTC), call_outcome="failed", error=error))
    recording.recorder.note_teardown(uid, outcome)
