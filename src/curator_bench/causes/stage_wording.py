"""An explanation by stages as a table, as lines of text, and as a document for JSON."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

from curator_bench.causes.explanation import Explanation, StageChange
from curator_bench.causes.matched_stages import Presence
from curator_bench.causes.stage_work import Figures
from curator_bench.causes.wall_time import Shape
from curator_bench.verdict.joint import Difference, Judged
from curator_bench.verdict.judgement import Word
from curator_bench.words import NOTHING, change, how_many, printable, readable_seconds

HEADS = ("STAGE", ">WORK BEFORE", ">AFTER", ">CHANGE", "99 % INTERVAL", ">OF THE DIFFERENCE", "VERDICT", "NOTE")
UNEXPLAINED = "(unexplained)"
_SHOWN_WAIT = 0.05
"""A change of waiting or backpressure is shown from this share of the wall time on."""
_OTHER_COUNT = 0.02
_CHANGED = (Word.REGRESSION, Word.IMPROVEMENT)


def conclusion(found: Explanation) -> Iterator[str]:
    """Yield what is named as the cause, or why nothing is."""
    if found.shared is not None and found.shared.word in _CHANGED:
        word = "slower" if found.shared.change > 0 else "faster"
        by = change(found.shared.change)
        yield (f"most stages are {word} alike, by {by}: look for what they share, such as the machine, or a library")
    for stage in found.named:
        what = f"moving the data of {stage.name}" if stage.is_moving_named else stage.name
        yield printable(
            f"{stage.word}: {what} {change(stage.judged.change if stage.judged else None)}{_cost(stage, found)}"
        )
    for stage in found.stages:
        if not (stage.match.before and stage.match.after) and stage.wall is not None and _matters(stage.wall, found):
            yield printable(f"{stage.match.presence}: {stage.name}{_cost(stage, found)}")
    if not found.named:
        yield f"no stage is named{f': {found.decides}' if found.decides else _why_none(found)}"
    elif found.decides:
        yield found.decides


def _why_none(found: Explanation) -> str:
    if found.change.word is Word.NO_CHANGE:
        return ": the time did not change"
    return ": the work of every stage is as before, or changed too little to count"


def _cost(stage: StageChange, found: Explanation) -> str:
    """Say how the work of a stage shows in the wall time."""
    if stage.wall is not None:
        of = f" of the {signed_seconds(found.wall.value)}"
        limits = ", as it limits the pipeline" if any(stage.limits) else ""
        return f": {signed_seconds(stage.wall.value)}{of}{limits}"
    if not found.shapes:
        return " more work; when it ran is not recorded, so its part of the time is unknown"
    return f": {signed_seconds(stage.gained_work_s)} of work, none of the time, as another stage limits the pipeline"


def _matters(part: Difference, found: Explanation) -> bool:
    return abs(part.value) > 0.01 * found.wall.before


def rows(found: Explanation) -> list[tuple[str, ...]]:
    """Return the rows of the table, for `HEADS`. What is left unexplained is last."""
    last = (UNEXPLAINED, "", "", "", "", signed_seconds(found.unexplained.value), "", "")
    return [*(_row(stage) for stage in found.stages), last]


def _row(stage: StageChange) -> tuple[str, ...]:
    work, (before, after) = stage.work, stage.worked_s
    return (
        stage.name,
        _seconds(before),
        _seconds(after),
        change(work.change) if work else "",
        interval(work),
        signed_seconds(stage.wall.value) if stage.wall else "",
        _verdict(stage),
        "; ".join(notes(stage)),
    )


def _verdict(stage: StageChange) -> str:
    is_unjudged = stage.word is None and stage.match.before and stage.match.after
    return "" if is_unjudged else str(stage.word or stage.match.presence)


def interval(work: Judged | None) -> str:
    if work is None or work.interval is None:
        return ""
    low, high = work.interval
    return f"{change(low)} to {change(high)}"


def notes(stage: StageChange) -> Iterator[str]:
    """Yield what else is known of a stage."""
    if stage.match.presence in (Presence.RENAMED, Presence.FUSED):
        yield str(stage.match.presence)
    match stage.limits:
        case (True, True):
            yield "the bottleneck"
        case (True, False):
            yield "was the bottleneck"
        case (False, True):
            yield "became the bottleneck"
    if stage.is_around_others:
        yield "waits for the stages in it"
    before, after = stage.before, stage.after
    if stage.word is None and not stage.is_around_others and before.work_s and after.work_s:
        yield "too short to matter"
    if stage.moving is not None and stage.moving.word in _CHANGED:
        moved = f"{_seconds(before.moving_s)} → {_seconds(after.moving_s)}"
        yield f"reading arguments and storing results {moved} ({change(stage.moving.change)})"
    if before.tasks and after.tasks and abs(after.tasks / before.tasks - 1) > _OTHER_COUNT:
        yield f"{before.tasks:,.0f} → {after.tasks:,.0f} tasks"


def consequences(found: Explanation) -> Iterator[str]:
    """Yield how waiting and backpressure changed: they follow from the pace of other stages."""
    least = _SHOWN_WAIT * found.wall.before
    for stage in found.stages:
        for what, before, after in _waits(stage):
            if before is not None and after is not None and abs(after - before) >= least:
                said = f"{what} {readable_seconds(before)} → {readable_seconds(after)}"
                missing = stage.before.waits_missing + stage.after.waits_missing
                lost = (
                    f" ({how_many(math.ceil(missing), 'task')} a run unknown)" if missing and "waited" in what else ""
                )
                yield printable(f"{stage.name} {said}{lost}")


def _waits(stage: StageChange) -> Iterator[tuple[str, float | None, float | None]]:
    yield "waited", stage.before.waiting_s, stage.after.waiting_s
    yield "was held back", stage.before.backpressure_s, stage.after.backpressure_s


def shape(found: Explanation) -> str:
    """Say how the stages make up the wall time; empty if that is not recorded."""
    if not found.shapes:
        return ""
    if all(one is Shape.SERIAL for one in found.shapes):
        return "the stages ran one after the other: their times add up"
    phases = f"{how_many(len(found.shapes), 'phase')}: " if len(found.shapes) > 1 else ""
    kinds = ", ".join(dict.fromkeys(map(str, found.shapes)))
    return f"{phases}the stages ran at the same time ({kinds})" if not phases else f"{phases}{kinds}"


def signed_seconds(seconds: float) -> str:
    if not math.isfinite(seconds):
        return NOTHING
    return f"{'-' if seconds < 0 else '+'}{readable_seconds(abs(seconds))}"


def _seconds(seconds: float | None) -> str:
    return "" if seconds is None else readable_seconds(seconds)


def document(found: Explanation) -> dict[str, Any]:
    """Return the explanation for JSON."""
    return {
        "runs": list(found.runs),
        "wall": {**_difference(found.wall), **_judged(found.change)},
        "shapes": [str(one) for one in found.shapes],
        "shared": found.shared and _judged(found.shared),
        "named": [stage.name for stage in found.named],
        "stages": [_stage(stage) for stage in found.stages],
        "unexplained": _difference(found.unexplained),
        "decides": found.decides,
    }


def _stage(stage: StageChange) -> dict[str, Any]:
    return {
        "name": stage.name,
        "kind": str((stage.match.after or stage.match.before)[0].kind),
        "presence": str(stage.match.presence),
        "names_before": [one.name for one in stage.match.before],
        "names_after": [one.name for one in stage.match.after],
        "work": stage.work and _judged(stage.work),
        "moving": stage.moving and _judged(stage.moving),
        "wall": stage.wall and _difference(stage.wall),
        "was_bottleneck": stage.limits[0],
        "is_bottleneck": stage.limits[1],
        "before": _figures(stage.before),
        "after": _figures(stage.after),
    }


def _figures(figures: Figures) -> dict[str, Any]:
    return {name: getattr(figures, name) for name in Figures.__slots__}


def _difference(found: Difference) -> dict[str, Any]:
    return {
        "before_s": found.before,
        "after_s": found.after,
        "difference_s": found.value,
        "interval_s": found.interval and list(found.interval),
    }


def _judged(found: Judged) -> dict[str, Any]:
    return {
        "verdict": str(found.word),
        "change": found.change if math.isfinite(found.change) else None,
        "beyond_shared": found.beyond if math.isfinite(found.beyond) else None,
        "interval": found.interval and list(found.interval),
    }
