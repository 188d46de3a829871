"""The stages of a run as a table."""

from __future__ import annotations

from collections.abc import Sequence

from curator_bench.cli import tables
from curator_bench.values import Stage, StageKind
from curator_bench.words import readable_bytes

_MOST_ROWS = 20
_HEADS = ("STAGE", "KIND", ">COUNT", ">WORKER-SECONDS", ">SHARE", ">ACTIVE", ">WAITING", ">HELD BACK", ">IN", ">OUT")


def print_stages(stages: Sequence[Stage]) -> None:
    """Print the stages in the order in which they began; of many, those that took longest."""
    total = sum(stage.executing_s or 0.0 for stage in stages)
    longest = sorted(stages, key=lambda stage: -(stage.executing_s or 0.0))[:_MOST_ROWS]
    shown = [stage for stage in stages if stage in longest]
    heads = tables.columns(*_HEADS, "NOTES")
    rows = [_row(stage, total) for stage in shown]
    filled = [place for place, head in enumerate(heads) if head.title == "STAGE" or _says_anything(rows, place)]
    tables.print_table([heads[place] for place in filled], [[row[place] for place in filled] for row in rows])
    if len(shown) < len(stages):
        tables.say(f"… and {len(stages) - len(shown)} shorter ones; --json has them all")


def _says_anything(rows: Sequence[Sequence[str]], place: int) -> bool:
    return any(row[place] not in ("", tables.NOTHING) for row in rows)


def _row(stage: Stage, total: float) -> list[str]:
    share = f"{100 * stage.executing_s / total:.0f} %" if stage.executing_s is not None and total else tables.NOTHING
    return [
        tables.shortened(stage.name),
        str(stage.kind),
        tables.number(stage.count),
        tables.seconds(stage.executing_s),
        share,
        tables.seconds(stage.active_s),
        tables.seconds(stage.waiting_s),
        tables.seconds(stage.backpressure_s),
        _bytes(stage.bytes_in),
        _bytes(stage.bytes_out),
        ", ".join(_notes(stage)),
    ]


def _notes(stage: Stage) -> list[str]:
    """Return what the figures of the row leave out."""
    counts = {
        "retries": stage.retries,
        "failures": stage.failures,
        "times unknown": stage.times_missing,
        "waits unknown": stage.waits_missing if stage.kind is not StageKind.STEP else 0,
    }
    return [f"{count:,} {what}" for what, count in counts.items() if count]


def _bytes(count: int | None) -> str:
    return tables.NOTHING if count is None else readable_bytes(count)
