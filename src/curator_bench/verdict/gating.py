"""Is the newest value of a metric worse than the ones before? One decision for one metric of one entry.

The newest runs are held against the level before them: the newest alone, and the last two, four and six, because a
small shift shows only after some runs. What is found is a regression (or, mirrored, an improvement) when noise is not
likely to explain it and when it is large enough to matter.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from itertools import islice

import numpy as np

from curator_bench.verdict.cases import SHORTEST_BLOCK, STRETCHES, Case, NoCase, Question, Rules, case_of, newest_of
from curator_bench.verdict.explanations import explain
from curator_bench.verdict.intervals import Change, changes_of
from curator_bench.verdict.noise import BLOCK, BLOCKS, OUTLIER, blocks_of, noise_of
from curator_bench.verdict.scale import as_floats
from curator_bench.verdict.tails import Floats

_USUAL_SPREAD = 0.02
"""Where runs scatter more, more certainty is asked for: only large shifts stand out there, and they are rare."""
_MOST_DOUBT = 2.5
"""From so many usual spreads on it is as much; else nothing would stand out of wide noise within a few runs."""
_RARE = 0.02
"""A run that is far off is suspect where fewer runs than this share are outliers like it."""
_OLDEST_BEGINNING = 50
_TOO_LITTLE_TO_SAY = 0.0005


class Outcome(StrEnum):
    REGRESSION = "regression"
    IMPROVEMENT = "improvement"
    SUSPECT = "suspect"
    """Worse than chance explains, and outliers like it are rare. Measuring again decides."""
    LEVEL = "level"
    NOT_ENOUGH_HISTORY = "not enough history"
    NOT_COMPARABLE = "not comparable"


@dataclass(frozen=True, slots=True)
class Decision:
    """The answer. Values are in the metric's own unit, changes and spread are fractions of the baseline."""

    outcome: Outcome
    reason: str
    value: float | None = None
    """The level of the newest runs: of those since the shift, else of those that were asked about."""
    baseline: float | None = None
    """The level they are held against."""
    spread: float | None = None
    """How much one run differs from the next while nothing changes."""
    change: float | None = None
    interval: tuple[float, float] | None = None
    p_value: float = 1.0
    """The chance that noise explains what was found; comparable between metrics, so fit for `false_discovery`."""
    chance: float = 1.0
    """The same as if there were no outliers. Those hit a run with all its metrics, so this is what compares between the
    metrics of one run."""
    began: int | None = None
    """The first run of the shift: an index into the history followed by the newest."""
    history: int = 0
    """How many runs of the history could be used."""

    @property
    def is_shift(self) -> bool:
        return self.outcome in (Outcome.REGRESSION, Outcome.IMPROVEMENT)


def gate(
    history: Sequence[float] | Floats,
    newest: float | Sequence[float] | Floats,
    rules: Rules,
    *,
    baseline: Sequence[float] | Floats | None = None,
) -> Decision:
    """Decides whether `newest` is worse than `history`: the comparable runs before it, the oldest first.

    `newest` is one value; or several that belong together, as when a gate that failed was confirmed by measuring again.
    With a `baseline` (the runs of a commit or a branch) they are held against that alone, and history only tells how
    much the metric scatters.
    """
    own = None if baseline is None else as_floats(baseline)
    return gate_all([Question(as_floats(history), as_floats(np.atleast_1d(newest)), rules, own)])[0]


def gate_all(questions: Iterable[Question]) -> list[Decision]:
    """The decisions on many questions, in their order; much faster than one by one."""
    return decide([case_of(question) for question in questions])


def decide(cases: Sequence[Case | NoCase]) -> list[Decision]:
    """The same for questions that are cases already."""
    asked = [(case, count) for case in cases if isinstance(case, Case) for count in case.stretches()]
    rows = iter(_weigh(asked) if asked else ())
    judged = [_judge(case, list(islice(rows, len(case.stretches())))) for case in cases if isinstance(case, Case)]
    answers = iter(_described(judged) if judged else ())
    return [next(answers) if isinstance(case, Case) else _undecided(case) for case in cases]


def _undecided(case: NoCase) -> Decision:
    outcome = Outcome.NOT_ENOUGH_HISTORY if case.lacks_history else Outcome.NOT_COMPARABLE
    return Decision(outcome, case.reason, history=case.history)


@dataclass(frozen=True, slots=True)
class _Row:
    """What the last `count` runs of a case say: which way they are off, and how likely that is noise."""

    count: int
    is_down: bool
    is_large: bool
    p_value: float
    by_chance: float
    as_outlier: float
    """How likely noise is, outliers included, without what is added in doubt."""
    level: float
    spread: float


def _weigh(asked: Sequence[tuple[Case, int]]) -> list[_Row]:
    """Weighs all stretches of all cases at once; those that are down are turned over, so that the same rule holds."""
    noise = noise_of(blocks_of([case.blocks(len(case.places) - count) for case, count in asked]))
    newest = newest_of(asked)
    means = np.sum(newest.values, axis=1, where=newest.filled) / np.sum(newest.filled, axis=1)
    is_down = means < noise.level
    sign = np.where(is_down, -1.0, 1.0)
    explained = explain(noise.upside_down(is_down), replace(newest, values=newest.values * sign[:, None]))
    doubt = 3 * np.log(np.clip(noise.spread / _USUAL_SPREAD, 1.0, _MOST_DOUBT))
    columns = (
        [count for _, count in asked],
        is_down.tolist(),
        (explained.shift >= _least_shifts(asked, noise.level)).tolist(),
        np.exp(np.minimum(explained.log_noise + doubt, 0.0)).tolist(),
        np.exp(np.minimum(explained.log_chance + doubt, 0.0)).tolist(),
        np.exp(explained.log_noise).tolist(),
        noise.level.tolist(),
        noise.spread.tolist(),
    )
    return [_Row(*row) for row in zip(*columns, strict=True)]


def _least_shifts(asked: Sequence[tuple[Case, int]], levels: Floats) -> Floats:
    pairs = zip(asked, levels, strict=True)
    return np.array([float(case.scale.least_shift(level, case.rules.min_effect)) for (case, _), level in pairs])


@dataclass(frozen=True, slots=True)
class _Judged:
    """A case with its outcome, still without the numbers for people; `count` runs are at the newest level."""

    case: Case
    outcome: Outcome
    p_value: float
    chance: float
    count: int


def _judge(case: Case, rows: Sequence[_Row]) -> _Judged:
    alone = rows[0]
    best = min((row for row in rows if row.is_large), key=lambda row: row.p_value, default=None)
    # Who looks more often must be surer each time.
    p_value = min(best.p_value * max(len(rows) / len(STRETCHES), 1.0), 1.0) if best else 1.0
    if best and p_value <= case.rules.certainty:
        outcome = Outcome.IMPROVEMENT if best.is_down else Outcome.REGRESSION
        return _Judged(case, outcome, p_value, best.by_chance, _runs_since_shift(case, best))
    outcome = Outcome.SUSPECT if _is_suspect(alone, case.rules) else Outcome.LEVEL
    return _Judged(case, outcome, p_value, alone.by_chance, alone.count)


def _is_suspect(alone: _Row, rules: Rules) -> bool:
    is_worse = alone.is_large and not alone.is_down
    return is_worse and alone.by_chance <= rules.certainty and alone.as_outlier <= _RARE


def _runs_since_shift(case: Case, row: _Row) -> int:
    """Of which last runs it is clearest that they are nearer to the new level than to the old one."""
    if case.baseline is not None:
        return row.count
    runs = len(case.places)
    cuts = [cut.index for cut in case.cuts if cut.index <= runs - row.count - SHORTEST_BLOCK]
    recent = case.places[max([0, runs - _OLDEST_BEGINNING, *cuts]) :]
    distances = (recent - row.level) * (-1.0 if row.is_down else 1.0)
    shift = float(np.sort(distances[-row.count :])[(row.count - 1) // 2])
    most = max(shift, OUTLIER * row.spread) ** 2
    nearer = np.minimum(distances**2, most) - np.minimum((distances - shift) ** 2, most)
    evidence = np.cumsum(nearer[::-1])[case.newest - 1 : -1]
    return case.newest + int(np.argmax(evidence)) if len(evidence) else case.newest


def _described(judged: Sequence[_Judged]) -> list[Decision]:
    """The decisions with their numbers: the level before and the level of the newest runs."""
    blocks = []
    for one in judged:
        before = one.case.blocks(len(one.case.places) - one.count)
        after = one.case.places[-one.count :][-BLOCK:]
        blocks.append([one.case.sign * block for block in [*before[1 - BLOCKS :], after]])
    noise = noise_of(blocks_of(blocks))
    changes = changes_of(noise, [one.case.scale for one in judged], [one.case.rules.confidence for one in judged])
    return [_answer(*row) for row in zip(judged, changes, noise.spread.tolist(), strict=True)]


def _answer(judged: _Judged, change: Change, spread: float) -> Decision:
    case, is_shift = judged.case, judged.outcome in (Outcome.REGRESSION, Outcome.IMPROVEMENT)
    return Decision(
        outcome=judged.outcome,
        reason=_reason(judged, change),
        value=change.after,
        baseline=change.before,
        spread=case.scale.fraction(spread, change.before),
        change=change.change,
        interval=change.interval,
        p_value=judged.p_value,
        chance=judged.chance,
        began=case.indices[len(case.places) - judged.count] if is_shift else None,
        history=len(case.places) - case.newest,
    )


def _reason(judged: _Judged, change: Change) -> str:
    off = _words(change.change)
    match judged.outcome:
        case Outcome.SUSPECT:
            return f"{off}: an outlier or a regression, measuring again decides"
        case Outcome.LEVEL:
            return f"{off}: not certain, or not large enough to matter"
        case _:
            return f"{off}, since {judged.count} run{'s' if judged.count > 1 else ''}"


def _words(change: float) -> str:
    if abs(change) < _TOO_LITTLE_TO_SAY:
        return "as before"
    return f"{abs(change):.1%} {'more' if change > 0 else 'less'}" if math.isfinite(change) else "no longer zero"
