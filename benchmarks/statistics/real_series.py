"""How a rule does on real histories: which steps it finds, how many of its calls last, what it makes of real noise.

`real_histories.json.gz` holds medians of pyperformance for hundreds of commits of CPython over two years, of two
machines (x86-64, ARM) and two builds, from https://github.com/facebookexperimental/free-threading-benchmarking. Its
`steps` are the places where both machines changed the same way by 3 % or more, between the ten runs before and the ten
after; its `clean` are the beginnings of stretches of 60 runs in which nothing changes.
"""

from __future__ import annotations

import argparse
import gzip
import itertools
import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from generated_series import Floats

HISTORIES = Path(__file__).with_name("real_histories.json.gz")
LEAST = 0.03
_NEAR, _SIDE, _STRETCH = 5, 10, 60
_STILL_THERE, _CLEAR = 0.02, 0.92

Call = tuple[int, float]
"""The first run of a new level, and the change."""
Finder = Callable[[Sequence[Floats]], list[list[Call]]]


@dataclass(frozen=True, slots=True)
class Cell:
    """The end of a clean stretch, its noise multiplied, its last runs times a factor."""

    before: int
    after: int = 0
    factor: float = 1.0
    noise: int = 1

    @property
    def name(self) -> str:
        kind = f"x{self.factor:g} in the last {self.after}, " if self.after else "clean, "
        return f"{kind}{self.before} before, noise x{self.noise}"


CLEAN = [Cell(before, noise=noise) for before in (10, 20, 50) for noise in (1, 5, 15)]
SMALL = [Cell(50, 6, 1.05), Cell(20, 6, 1.05), Cell(50, 2, 1.1), Cell(50, 6, 1.1, 5), Cell(10, 3, 1.5, 5)]
LARGE = [Cell(b, a, f, n) for f in (2.0, 12.0) for n in (1, 5, 15) for b in (8, 20, 50) for a in (2, 3)]


def ours(histories: Sequence[Floats]) -> list[list[Call]]:
    from curator_bench.verdict.cases import History, Rules
    from curator_bench.verdict.direction import Better
    from curator_bench.verdict.judgement import Word
    from curator_bench.verdict.trends import trends

    found = trends([History(values, Rules(Better.LESS)) for values in histories])
    return [[(step.began, step.change) for step in one.steps if step.word is not Word.NO_CHANGE] for one in found]


def otava(histories: Sequence[Floats]) -> list[list[Call]]:
    from otava.series import AnalysisOptions, Metric, Series

    options = AnalysisOptions()
    options.min_magnitude = LEAST

    def calls(values: Floats) -> list[Call]:
        series = Series("t", None, list(range(len(values))), {"m": Metric(1)}, {"m": values.tolist()}, {})
        points = series.analyze(options).change_points.get("m", [])
        return [(int(one.index), float(one.mean_after() / one.mean_before() - 1)) for one in points]

    return [calls(values) for values in histories]


def asv(histories: Sequence[Floats]) -> list[list[Call]]:
    from asv.step_detect import detect_steps

    def calls(values: Floats) -> list[Call]:
        steps = detect_steps(values.tolist())
        return [(int(new[0]), float(new[2] / old[2] - 1)) for old, new in itertools.pairwise(steps)]

    return [calls(values) for values in histories]


def three_sigma(histories: Sequence[Floats]) -> list[list[Call]]:
    """The last three of thirteen runs are all above the mean of the others by three standard deviations."""

    def calls(values: Floats) -> list[Call]:
        found: list[Call] = []
        for end in range(13, len(values) + 1):
            before, last = values[end - 13 : end - 3], values[end - 3 : end]
            is_new = not found or end - 3 - found[-1][0] > _SIDE
            if is_new and np.all(last > before.mean() + 3 * before.std(ddof=1)):
                found.append((end - 3, float(last.mean() / before.mean() - 1)))
        return found

    return [calls(values) for values in histories]


FINDERS: dict[str, Finder] = {"curator-bench": ours, "three-sigma": three_sigma, "asv": asv, "otava": otava}


def lasts(values: Floats, call: Call) -> bool | None:
    """The ten runs since a call differ from the ten before it as it says; None where there are too few to tell."""
    at, change = call
    before, since = values[max(0, at - _SIDE) : at], values[at : at + _SIDE]
    if min(len(before), len(since)) < _SIDE // 2:
        return None
    shift = float(np.median(since) / np.median(before) - 1)
    apart = since[None, :] - before[:, None]
    share = float(np.mean((apart > 0) + (apart == 0) / 2))
    return shift * change > 0 and abs(shift) >= _STILL_THERE and max(share, 1 - share) > _CLEAR


def histories() -> list[dict[str, Any]]:
    with gzip.open(HISTORIES) as file:
        rows: list[dict[str, Any]] = json.load(file)
    return rows


def score(find: Finder, per_cell: int, seed: int, rows: Sequence[Mapping[str, Any]] | None = None) -> dict[str, float]:
    """The figures of these histories; of all without."""
    rows = histories() if rows is None else rows
    values = [np.array(row["values"]) for row in rows]
    calls = [_large(found) for found in find(values)]
    steps = [(found, at, change) for row, found in zip(rows, calls, strict=True) for at, change in row["steps"]]
    judged = [lasts(one, call) for one, found in zip(values, calls, strict=True) for call in found]
    certain = [one for one in judged if one is not None]
    pool = [one[start : start + _STRETCH] for row, one in zip(rows, values, strict=True) for start in row["clean"]]
    cells = _cells(find, pool, per_cell, seed)
    return {
        "steps_found": float(np.mean([_is_found(*step) for step in steps])),
        "calls_that_last": float(np.mean(certain)) if certain else 0.0,
        "calls": float(len(certain)),
        "false_alarms": float(np.mean([cells[cell.name] for cell in CLEAN])),
        "x2_and_x12_found": float(np.mean([cells[cell.name] for cell in LARGE])),
        **cells,
    }


def _large(found: Sequence[Call]) -> list[Call]:
    return [call for call in found if abs(call[1]) >= LEAST]


def _is_found(calls: Sequence[Call], at: int, change: float) -> bool:
    return any(abs(index - at) <= _NEAR and one * change > 0 for index, one in calls)


def _cells(find: Finder, pool: Sequence[Floats], per_cell: int, seed: int) -> dict[str, float]:
    random = np.random.default_rng(seed)
    planted = [(cell, _planted(cell, pool, random)) for cell in _repeated(per_cell)]
    found = find([values for _, values in planted])
    hits, counts = Counter[str](), Counter[str]()
    for (cell, _), calls in zip(planted, found, strict=True):
        new = [call for call in _large(calls) if not cell.after or (call[0] >= cell.before - 2 and call[1] > 0)]
        hits[cell.name] += bool(new)
        counts[cell.name] += 1
    return {name: hits[name] / counts[name] for name in counts}


def _repeated(per_cell: int) -> Iterator[Cell]:
    """What is rare needs more of them."""
    for cell in [*CLEAN, *SMALL, *LARGE]:
        yield from [cell] * per_cell * (1 if cell.after else 4)


def _planted(cell: Cell, pool: Sequence[Floats], random: np.random.Generator) -> Floats:
    values = pool[int(random.integers(len(pool)))][-(cell.before + cell.after) :].copy()
    middle = float(np.median(values))
    if cell.noise > 1:  # else what drifts by half a percent would drift by several
        random.shuffle(values)
    values = middle * (values / middle) ** cell.noise
    values[cell.before :] *= cell.factor
    return values


def replay(find: Finder, every: int = 1, rows: Sequence[Mapping[str, Any]] | None = None) -> dict[str, float]:
    """Every history judged run by run, as it was then: the share of the fresh calls that last in hindsight."""
    rows = histories() if rows is None else rows
    lasting: list[bool] = []
    for row in rows[::every]:
        values, known = np.array(row["values"]), list[Call]()
        for found in find([values[:end] for end in range(_SIDE, len(values) + 1)]):
            for call in _large(found):
                if not any(abs(call[0] - at) <= _SIDE and call[1] * change > 0 for at, change in known):
                    known.append(call)
                    held = lasts(values, call)
                    lasting += [] if held is None else [held]
    return {"replayed_calls": float(len(lasting)), "replayed_calls_that_last": float(np.mean(lasting))}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--detector", choices=sorted(FINDERS), required=True)
    parser.add_argument("--per-cell", type=int, default=60)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--replay-every", type=int, default=0, help="replay each so-manieth history; 0: none")
    parser.add_argument("--benchmark-results-path", type=Path, required=True)
    options = parser.parse_args()
    figures = score(FINDERS[options.detector], options.per_cell, options.seed)
    if options.replay_every:
        figures |= replay(FINDERS[options.detector], options.replay_every)
    folder: Path = options.benchmark_results_path
    folder.mkdir(parents=True, exist_ok=True)
    params = {"real": options.detector, "per_cell": options.per_cell, "seed": options.seed}
    (folder / "params.json").write_text(json.dumps(params))
    (folder / "metrics.json").write_text(json.dumps({"is_success": True, **figures}))
    print(json.dumps(figures, indent=2))


if __name__ == "__main__":
    main()
