"""Prints how much the figures on real histories depend on each constant of the rule, as a table in Markdown.

Each constant is taken a fifth smaller and a fifth larger, the others as they are. The histories are in two halves, by
the name of their benchmark: a constant that was fitted to one half would show it on the other.

python benchmarks/statistics/constants.py --per-cell 60 --replay-every 16
"""

from __future__ import annotations

import argparse
import hashlib
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import real_series

from curator_bench.verdict import ends, levels, newest, noise

CONSTANTS: dict[ModuleType, tuple[str, ...]] = {
    levels: ("_COST", "_SIDE", "_CERTAIN", "_CLEAR", "_STANDS_OUT"),
    newest: (
        *("CERTAIN", "CERTAIN_OF_FEW", "_NO_OUTLIERS", "_CLEAR_OF_FEW", "_CLEAR", "_SUDDEN", "_LEAST"),
        *("_LEAST_OF_MORE", "_ALIKE", "_ELSEWHERE", "_MANY_TIMES", "_ALONE", "_FARTHER", "_LEAST_OF_RESTLESS"),
    ),
    ends: ("EARLIER", "_RECENT"),
    noise: ("BLOCK", "OUTLIER"),
}
_SHARES = {"_CLEAR", "_CLEAR_OF_FEW"}
_FIGURES = ("steps_found", "calls_that_last", "false_alarms", "x2_and_x12_found", "replayed_calls_that_last")


def halves() -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """The histories in two parts; all of a benchmark are in the same."""
    rows = real_series.histories()
    is_second = [int(hashlib.sha1(row["benchmark"].encode()).hexdigest(), 16) % 2 for row in rows]
    return (
        [row for row, second in zip(rows, is_second, strict=True) if not second],
        [row for row, second in zip(rows, is_second, strict=True) if second],
    )


def times(name: str, value: Any, factor: float) -> Any:
    """The constant that many times; a share is moved so far from one."""
    if isinstance(value, dict):
        return {runs: factor * least for runs, least in value.items()}
    if name in _SHARES:
        return 1 - (1 - value) * factor
    return round(factor * value) if isinstance(value, int) else factor * value


def settings() -> Iterator[str]:
    """Names of the settings; while one is yielded it holds, wherever the constant was imported."""
    yield "as it is"
    rooms = list(CONSTANTS)
    for room, names in CONSTANTS.items():
        for name in names:
            value = vars(room)[name]
            holders = [
                one for one in rooms if vars(one).get(name) is value and (one is room or not name.startswith("_"))
            ]
            for factor in (0.8, 1.2):
                for one in holders:
                    setattr(one, name, times(name, value, factor))
                yield f"`{name.lstrip('_')}` of {room.__name__.rpartition('.')[2]} x {factor}"
            for one in holders:
                setattr(one, name, value)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--per-cell", type=int, default=60)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--replay-every", type=int, default=0, help="replay each so-manieth history; 0: none")
    options = parser.parse_args()
    print("| setting |", " | ".join(name.replace("_", " ") for name in _FIGURES), "|\n|---|" + "--:|" * len(_FIGURES))
    parts = halves()
    for setting in settings():
        found = []
        for rows in parts:
            figures = real_series.score(real_series.ours, options.per_cell, options.seed, rows)
            if options.replay_every:
                figures |= real_series.replay(real_series.ours, options.replay_every, rows)
            found.append(figures)
        cells = [" / ".join(f"{one[name]:.1%}" for one in found if name in one) for name in _FIGURES]
        print(f"| {setting} |", " | ".join(cells), "|", flush=True)


if __name__ == "__main__":
    main()
