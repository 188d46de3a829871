"""RunResult to what leaves the process that ran it: results.json, and builtin values that travel on the test report."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from curator_bench.collection import BENCHMARKS, RUN
from curator_bench.execution.directories import PENDING
from curator_bench.execution.files import strict, write_json
from curator_bench.execution.result_lines import add_lines
from curator_bench.matrix import definition_of
from curator_bench.report.session_runs import RESULTS
from curator_bench.runner.outcomes import Outcome, masked_outcome
from curator_bench.runner.run_keys import DEFINITION, UID
from curator_bench.values import Check, Entry, RunResult, Verdict

EARLIER = "earlier"
"""The runs of an item before that one: others followed, after an `error` or because more were asked for."""
_MOST_PROPERTIES = 200


def note_run(
    item: pytest.Item, entry: Entry, result: RunResult, verdict: Verdict, checks: Sequence[Check]
) -> dict[str, Any]:
    """Complete the row of a judged run, write results.json and results.jsonl, and keep the run for the test report.

    The files come after the row, so that none says `passed` before it is so. Whoever resumes a session that was killed
    in between finds results.json beside its place (`take_pending`).
    """
    benchmarks = item.config.stash[BENCHMARKS]
    shown = masked_outcome(Outcome(result, tuple(checks)), benchmarks.mask)
    result, checks = shown.result, shown.checks
    directory = benchmarks.session_dir.joinpath(*entry.folder)
    definition = item.stash.get(DEFINITION, None) or definition_of(entry)
    run = {
        **_builtin(result),
        "uid": item.stash.get(UID, ""),
        "verdict": str(verdict),
        "entry": entry.name,
        "axes": {value.axis: value.text for value in entry.axes},
        "matrix": entry.file.file,
        "nodeid": item.nodeid,
        "session": benchmarks.settings.session,
        "invocation": benchmarks.settings.invocation,
        "definition_hash": definition.hash,
        "definition": dict(definition.parts),
        "directory": str(directory),
        "requirements": [_builtin(check) for check in checks],
    }
    _keep(item, run)
    _try_to_write(run, lambda: _prepare(directory, run))
    if benchmarks.settings.benchmark:
        from curator_bench.runner import entry_record

        entry_record.finish(item, result, verdict, checks)
    _try_to_write(run, lambda: _publish(directory, run, result, verdict))
    return run


def _keep(item: pytest.Item, run: dict[str, Any]) -> None:
    """One run of an item counts, the last; sinks are told of the others too, wherever it is read."""
    before = item.stash.get(RUN, {})
    earlier = before.get(EARLIER, [])
    if before and before["uid"] != run["uid"]:
        earlier = [*earlier, {name: value for name, value in before.items() if name != EARLIER}]
    if earlier:
        run[EARLIER] = earlier
    item.stash[RUN] = run


def _builtin(value: Any) -> dict[str, Any]:
    """A dataclass as what JSON knows, and so pytest-xdist."""
    found: dict[str, Any] = json.loads(json.dumps(strict(dataclasses.asdict(value)), default=str))
    return found


def _try_to_write(run: dict[str, Any], write: Callable[[], None]) -> None:
    try:
        write()
    except OSError as error:
        warning = f"results.json could not be written: {error}"
        run["warnings"] = list(dict.fromkeys([*run["warnings"], warning]))


def _prepare(directory: Path, run: dict[str, Any]) -> None:
    directory.mkdir(parents=True, exist_ok=True)
    write_json(directory / PENDING, run)


def _publish(directory: Path, run: dict[str, Any], result: RunResult, verdict: Verdict) -> None:
    (directory / PENDING).replace(directory / RESULTS)
    add_lines(directory, result, verdict, uid=run["uid"], session=run["session"])


def add_properties(item: pytest.Item, verdict: Verdict, result: RunResult, checks: Sequence[Check] = ()) -> None:
    """For junit XML and whoever reads reports: of the attempt that counts."""
    item.user_properties.append(("verdict", str(verdict)))
    if inconclusive := [f"{check.metric} {check.bound}" for check in checks if check.is_inconclusive]:
        item.user_properties.append(("inconclusive", ", ".join(inconclusive)))
    for name, value in list(result.metrics.items())[:_MOST_PROPERTIES]:
        item.user_properties.append((name, strict(value)))
