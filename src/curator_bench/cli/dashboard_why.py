"""Explains the findings of the dashboard by their stages."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from curator_bench.causes import stage_wording
from curator_bench.causes.explanation import Explanation
from curator_bench.causes.sides import Sides, sides_of_step
from curator_bench.causes.why import why
from curator_bench.errors import BenchError
from curator_bench.report.site.waterfall import Bar, Waterfall

if TYPE_CHECKING:
    from sqlalchemy import Connection

    from curator_bench.causes.judged_history import RecordedStep
    from curator_bench.store.all_series import Series

_STAGES_SHOWN = 8


def sides_around(
    connection: Connection, series: Series, step: RecordedStep, known: Iterable[RecordedStep]
) -> Sides | None:
    """Return the runs on both sides of a step of a series; None if one has none."""
    key = step.entry, step.metric, step.machine_id
    others = [one.step for one in known if (one.entry, one.metric, one.machine_id) == key and one.step != step.step]
    sides = sides_of_step(connection, series, step, others)
    return sides if sides.before and sides.after else None


def explained(connection: Connection, sides: Sides, metric: str) -> Waterfall | None:
    """Explain the difference of two sides by their stages; None if they were not recorded."""
    try:
        found = why(connection, sides, metric)
    except BenchError:
        return None
    return _waterfall(found.explanation, found.metric)


def _waterfall(found: Explanation, metric: str) -> Waterfall:
    shown = [stage for stage in found.stages if stage.wall is not None or stage.word in ("regression", "improvement")]
    bars = [
        Bar(
            name=stage.name,
            seconds=stage.wall.value if stage.wall else 0.0,
            interval=stage.wall.interval if stage.wall else None,
            says=str(stage.word or stage.match.presence),
            change=stage.judged.change if stage.judged else None,
            note="; ".join(stage_wording.notes(stage)),
        )
        for stage in shown
    ]
    rest = bars[_STAGES_SHOWN:]
    if rest:
        bars = [*bars[:_STAGES_SHOWN], Bar(f"{len(rest)} other stages", sum(one.seconds for one in rest))]
    bars.append(Bar("unexplained", found.unexplained.value, found.unexplained.interval))
    return Waterfall(
        metric=metric,
        before=found.wall.before,
        after=found.wall.after,
        bars=tuple(bars),
        says=tuple(stage_wording.conclusion(found)),
        consequences=tuple(stage_wording.consequences(found)),
        runs=found.runs,
    )
