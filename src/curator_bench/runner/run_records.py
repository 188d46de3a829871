"""The record of a judged run, with secrets masked: written as results.json, and kept for the test report."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import pytest

from curator_bench.collection.benchmarks import BENCHMARKS, REPORT
from curator_bench.collection.items import RUN
from curator_bench.execution.directories import PENDING, make_own_folder
from curator_bench.execution.result_lines import add_lines
from curator_bench.files import safe_files
from curator_bench.files.codec import strict, to_document
from curator_bench.files.json_files import write_json
from curator_bench.masking import Mask, masked
from curator_bench.matrix import definition_of
from curator_bench.options.rootdir import name_in_project
from curator_bench.report.session_runs import RESULTS
from curator_bench.runner.disturbing import disturbed_by, warning_of
from curator_bench.runner.run_keys import DEFINITION, MACHINE, UID
from curator_bench.runner.session import hunt_of
from curator_bench.values import GATES, Check, Entry, RunRecord, RunResult, Stage, Verdict

_MOST_PROPERTIES = 200
_UNCONFIRMED = pytest.StashKey[set[str]]()
"""The uids of an item's runs that are not settled."""
_PROPERTIES = pytest.StashKey[list[tuple[str, object]]]()
"""The properties that the last run added to its item."""
_MEASURED = tuple(field.name for field in fields(RunResult) if field.name not in ("verdict", "profiles"))
"""Fields that a record takes over from the result."""


def note_run(
    item: pytest.Item, entry: Entry, result: RunResult, verdict: Verdict, checks: Sequence[Check]
) -> RunRecord:
    """Complete the row of a judged run, write results.json and results.jsonl, and keep the run for the test report.

    The files come after the row, so that no file says `passed` before the row does. After a kill in between, a resumed
    session finds results.json beside its place (`take_pending`).
    """
    _settle(item, checks)
    run = _record(item, record_of(item, entry, result, verdict, checks))
    item.stash[RUN] = _after(lambda: _add_lines(item, run), run)
    return item.stash[RUN]


def note_unconfirmed(item: pytest.Item, entry: Entry, result: RunResult, checks: Sequence[Check]) -> None:
    """Record a run whose gates another run is to confirm: as failed, until both are judged together by `note_run`.

    Its lines in results.jsonl, which are final, come then.
    """
    run = _record(item, record_of(item, entry, result, Verdict.FAILED, checks))
    item.stash.setdefault(_UNCONFIRMED, set()).add(run.uid)


def note_measured(
    item: pytest.Item, entry: Entry, result: RunResult, verdict: Verdict, checks: Sequence[Check]
) -> None:
    """Record a run that is judged by `note_run` once it has been profiled. Its lines in results.jsonl come then."""
    _record(item, record_of(item, entry, result, verdict, checks))


def _record(item: pytest.Item, run: RunRecord) -> RunRecord:
    session_dir = item.config.stash[BENCHMARKS].session_dir
    run = _after(lambda: _prepare(session_dir, run), run)
    item.stash[RUN] = run
    _complete_row(item, run)
    item.stash[RUN] = _after(lambda: publish(session_dir, run), run)
    return item.stash[RUN]


def _complete_row(item: pytest.Item, run: RunRecord) -> None:
    if item.config.stash[BENCHMARKS].settings.benchmark:
        from curator_bench.runner import recording

        recording.finish_row(item, run)


def _settle(item: pytest.Item, checks: Sequence[Check]) -> None:
    """Give the runs that were judged together with the last one the outcome of its gates."""
    uids = item.stash.get(_UNCONFIRMED, set())
    last = item.stash.get(RUN, None)
    if not uids or last is None:
        return
    del item.stash[_UNCONFIRMED]
    before = [_settled(item, run, checks) if run.uid in uids else run for run in (*last.earlier, last)]
    item.stash[RUN] = replace(before.pop(), earlier=tuple(before))


def _settled(item: pytest.Item, run: RunRecord, checks: Sequence[Check]) -> RunRecord:
    """Complete the row and the lines of an earlier run. Without gates of the last run it stays as it was recorded."""
    benchmarks = item.config.stash[BENCHMARKS]
    gates = [replace(check, actual=run.metrics.get(check.metric)) for check in checks if check.bound in GATES]
    if gates:
        own = [check for check in run.requirements if check.bound not in GATES]
        inconclusive_fails = benchmarks.settings.inconclusive_fails
        has_failed = any(one.is_unmet or (inconclusive_fails and one.is_inconclusive) for one in (*own, *gates))
        verdict = Verdict.FAILED if has_failed else Verdict.PASSED
        run = replace(run, verdict=verdict, requirements=(*own, *masked_checks(gates, benchmarks.mask)))
        _complete_row(item, run)
    return _after(lambda: _add_lines(item, run), run)


def note_interrupted(item: pytest.Item, entry: Entry, result: RunResult) -> None:
    """Record and show a run that was stopped from outside."""
    run = note_run(item, entry, result, result.verdict, ())
    if (report := item.config.pluginmanager.get_plugin(REPORT)) is not None:
        report.note_interrupted(run)
    item.ihook.pytest_bench_run_finished(item=item, result=result)


def record_of(
    item: pytest.Item, entry: Entry, result: RunResult, verdict: Verdict, checks: Sequence[Check]
) -> RunRecord:
    """Return the record of a judged run, including the item's earlier runs."""
    benchmarks = item.config.stash[BENCHMARKS]
    definition = item.stash.get(DEFINITION, None) or definition_of(entry)
    shown = masked_result(result, benchmarks.mask)
    measured: dict[str, Any] = {name: getattr(shown, name) for name in _MEASURED}
    uid = item.stash.get(UID, "")
    disturbance = disturbed_by(item.config, verdict, result.metrics)
    disturbance = disturbance and benchmarks.mask.hide(disturbance)
    measured["warnings"] = (*shown.warnings, *warning_of(disturbance))
    return RunRecord(
        **measured,
        disturbed=disturbance,
        verdict=verdict,
        uid=uid,
        entry=entry.name,
        axes={value.axis: value.text for value in entry.axes},
        marks=entry.marks,
        file=name_in_project(entry.file.file, item.config),
        matrix=entry.file.file,
        nodeid=item.nodeid,
        session=benchmarks.settings.session,
        invocation=benchmarks.settings.invocation,
        definition_hash=definition.hash,
        definition=definition.parts,
        directory=str(benchmarks.session_dir.joinpath(*entry.folder)),
        machine_id=item.stash.get(MACHINE, ""),
        hunt=hunt_of(item.config),
        requirements=masked_checks(checks, benchmarks.mask),
        earlier=_earlier(item, uid),
    )


def _earlier(item: pytest.Item, uid: str) -> tuple[RunRecord, ...]:
    """Return the item's earlier runs. Only the last run counts, but sinks also get the others."""
    before = item.stash.get(RUN, None)
    if before is None:
        return ()
    if before.uid == uid:
        return before.earlier
    return (*before.earlier, replace(before, earlier=(), is_last=False))


def _after(write: Callable[[], None], run: RunRecord) -> RunRecord:
    """Write the run. If that fails, return it with a warning."""
    try:
        write()
    except OSError as error:
        warning = f"results.json could not be written: {error}"
        return replace(run, warnings=tuple(dict.fromkeys([*run.warnings, warning])))
    return run


def _prepare(session_dir: Path, run: RunRecord) -> None:
    session_dir.mkdir(parents=True, exist_ok=True)
    make_own_folder(Path(run.directory), session_dir)
    write_json(Path(run.directory, PENDING), to_document(run), below=session_dir)


def publish(session_dir: Path, run: RunRecord) -> None:
    safe_files.rename(Path(run.directory, PENDING), RESULTS, below=session_dir)


def _add_lines(item: pytest.Item, run: RunRecord) -> None:
    add_lines(Path(run.directory), run, session_dir=item.config.stash[BENCHMARKS].session_dir)


def forget_run(item: pytest.Item) -> None:
    """Forget the item's last run, for plugins that run its test again. That run has been reported."""
    if RUN in item.stash:
        del item.stash[RUN]
    if _UNCONFIRMED in item.stash:
        del item.stash[_UNCONFIRMED]
    earlier = item.stash.get(_PROPERTIES, [])
    item.user_properties[:] = [one for one in item.user_properties if not any(one is own for own in earlier)]


def add_properties(item: pytest.Item, run: RunRecord) -> None:
    """Add properties of the run to the item, for junit XML and other readers of reports."""
    found: list[tuple[str, object]] = [("verdict", str(run.verdict))]
    if run.inconclusive:
        found.append(("inconclusive", ", ".join(f"{check.metric} {check.bound}" for check in run.inconclusive)))
    found += [(name, strict(value)) for name, value in itertools.islice(run.metrics.items(), _MOST_PROPERTIES)]
    item.stash[_PROPERTIES] = found
    item.user_properties += found


def masked_result(result: RunResult, mask: Mask) -> RunResult:
    return replace(
        result,
        error=mask.hide(result.error),
        command=tuple(map(mask.hide, result.command)),
        log_tail=tuple(mask.hide_lines(result.log_tail)),
        params=masked(dict(result.params), mask),
        metrics=masked(dict(result.metrics), mask),
        warnings=tuple(map(mask.hide, result.warnings)),
        changed=tuple(mask.hide_lines(result.changed)),
        stages=tuple(masked_stage(stage, mask) for stage in result.stages),
    )


def masked_stage(stage: Stage, mask: Mask) -> Stage:
    return replace(stage, name=mask.hide(stage.name), parts=tuple(map(mask.hide, stage.parts)))


def masked_checks(checks: Iterable[Check], mask: Mask) -> tuple[Check, ...]:
    return tuple(_masked_check(check, mask) for check in checks)


def _masked_check(check: Check, mask: Mask) -> Check:
    limit, actual = masked([check.limit, check.actual], mask)
    return replace(check, limit=limit, actual=actual, note=mask.hide(check.note))
