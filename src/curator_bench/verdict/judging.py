"""Judge the newest runs of metrics, whole histories, and two sets of runs. The docstring of the room explains how."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import pairwise

import numpy as np

from curator_bench.verdict.cases import MIN_EFFECT, Case, Question, Rules, case_of
from curator_bench.verdict.direction import Better
from curator_bench.verdict.distributions import Floats, t_value
from curator_bench.verdict.drifting import History as History
from curator_bench.verdict.drifting import Segmentation, segmentations
from curator_bench.verdict.drifting import drifts as drifts
from curator_bench.verdict.ends import EARLIER, FEWEST_BEFORE, End, cuts_and_ends, effects_of, ends_of
from curator_bench.verdict.false_discovery import adjusted, discoveries
from curator_bench.verdict.intervals import ROUNDS, Change, paired_change
from curator_bench.verdict.judgement import Course, Judgement, Level, Step, Unjudged, Word, word_by
from curator_bench.verdict.levels import Cut
from curator_bench.verdict.locating import located
from curator_bench.verdict.newest import CERTAIN, CERTAIN_OF_FEW, FEW, TAIL, least_of, weigh
from curator_bench.verdict.noise import BLOCK, middle, rows_may_be_empty, table_of
from curator_bench.words import multiple

STEP_RATE = 0.01
"""The share of noise among all steps reported of a database. If nothing changed, the chance that any is reported."""
ROUNDS_RATE = 0.05
GATE_RUNS = 150
"""The number of runs that a gate reads. Older levels do not help to judge the newest run."""
_FOUND = 0.84
"""In standard errors: a change is found 80 % of the time if it exceeds the least certain change by this much."""
_MOST_RUNS = 30
_LARGEST = 700.0
_TOO_LITTLE_TO_SAY = 0.0005
_SAME = 3
"""A step of the newest runs is the same as an earlier step if it is at most this many runs away."""


@dataclass(frozen=True, slots=True)
class Pair:
    """The two sides of a comparison: the runs of A and of B, and older runs beside B, which tell the noise."""

    before: Floats
    after: Floats
    history: Floats
    rules: Rules


@dataclass(frozen=True, slots=True)
class Rounds:
    """Values that two environments measured in turns: one of each for each round."""

    first: Floats
    other: Floats
    rules: Rules


def judge(questions: Sequence[Question]) -> list[Judgement]:
    """Judge the newest runs of each question, against the history or against its own baseline."""
    answers: list[Judgement | None] = [_why_unjudged(question) for question in questions]
    plain = [at for at, one in enumerate(questions) if answers[at] is None and one.baseline is None]
    own = [at for at, one in enumerate(questions) if answers[at] is None and one.baseline is not None]
    pairs = [
        Pair(np.asarray(questions[at].baseline), questions[at].newest, questions[at].history, questions[at].rules)
        for at in own
    ]
    for at, judgement in zip(plain, _of_newest([questions[at] for at in plain]), strict=True):
        answers[at] = judgement
    for at, judgement in zip(own, _of_pairs(pairs), strict=True):
        answers[at] = judgement
    return [one for one in answers if one is not None]


def _why_unjudged(question: Question) -> Judgement | None:
    rules, baseline = question.rules, question.baseline
    if rules.better is None:
        return _not_comparable("whether less or more of it is better is not known: declare `better`")
    if len(question.newest) == 0 or not np.all(np.isfinite(question.newest)):
        return _not_comparable("the newest value is not a finite number")
    known = int(np.isfinite(question.history).sum())
    if baseline is not None:
        of_baseline = int(np.isfinite(baseline).sum())
        known = max(known, of_baseline) if of_baseline else 0
    if known < max(rules.min_history, 1):
        reason = f"not enough history: {known} of at least {rules.min_history} runs"
        return Judgement(None, reason, Unjudged.NO_HISTORY, history=known)
    return None


def _not_comparable(reason: str) -> Judgement:
    return Judgement(None, reason, Unjudged.NOT_COMPARABLE)


def _of_newest(questions: Sequence[Question]) -> list[Judgement]:
    cases, newest, left_out = [], [], []
    for one in questions:
        case = case_of(np.concatenate([one.history, one.newest]), one.rules)
        left_out.append(max(len(case.places) - GATE_RUNS - len(one.newest), 0))
        cases.append(replace(case, places=case.places[left_out[-1] :], indices=case.indices[left_out[-1] :]))
        newest.append(len(one.newest))
    ends = cuts_and_ends(cases, newest)
    return [
        _judged(case, end, len(case.places) - count + earlier)
        for case, (_, end), count, earlier in zip(cases, ends, newest, left_out, strict=True)
    ]


def _judged(case: Case, end: End, known: int) -> Judgement:
    change, limit = case.change(end.level, end.shift), case.rules.min_effect
    noise = case.scale.fraction(end.noise, case.value(end.level))
    is_told = math.isfinite(noise)
    word = word_by(change, limit, is_worse=end.shift > 0, is_certain=end.holds)
    is_step, began = word in (Word.REGRESSION, Word.IMPROVEMENT), len(case.places) - end.runs
    return Judgement(
        word=word,
        reason=_reason(change, word, end.runs, limit),
        before=case.value(end.level),
        after=case.value(end.level + end.shift),
        change=change,
        interval=case.interval(end.level, end.shift, end.reach),
        p_value=math.exp(-max(end.chance, 0.0)),
        began=int(case.indices[began]) if is_step and 0 <= began < len(case.indices) else None,
        history=known,
        noise=noise if is_told else None,
        visible=visible_change(noise, end.history, end.runs, least=limit) if is_told else None,
        decides=_decides(noise, end, change) if word is Word.INCONCLUSIVE else "",
    )


def _reason(change: float, word: Word, count: int, limit: float) -> str:
    """Say how large the change is, and which limit it was judged by: gates and reports have their own."""
    off = _in_words(change)
    runs = "1 run" if count == 1 else f"{count} runs"
    match word:
        case Word.INCONCLUSIVE:
            return f"{off} in {runs}, limit {100 * limit:.3g}%: noise may explain it"
        case Word.NO_CHANGE:
            return off if off == "as before" else f"{off}, below the limit of {100 * limit:.3g}%"
        case _:
            return f"{off}, since {runs}"


def _in_words(change: float) -> str:
    if abs(change) < _TOO_LITTLE_TO_SAY:
        return "as before"
    if not math.isfinite(change):
        return "no longer zero"
    return multiple(change) or f"{abs(change):.1%} {'more' if change > 0 else 'less'}"


def _decides(noise: float, end: End, change: float) -> str:
    """Say how many more runs like these would decide."""
    if not math.isfinite(noise):
        return "measuring again decides"
    for more in range(1, _MOST_RUNS):
        if visible_change(noise, end.history, end.runs + more) <= abs(change):
            return f"measuring again decides: {more} more run{'s' if more > 1 else ''} like this would be certain"
    if 2 * noise < abs(change):
        return "measuring again may not decide: the change is close to the limit"
    return f"too noisy to judge: with noise of {noise:.1%}, {_MOST_RUNS} more runs like this would not be certain"


def visible_change(noise: float, history: int, newest: int = 1, *, least: float = MIN_EFFECT) -> float:
    """Return the smallest change, as a fraction, that is found 80 % of the time.

    There are `history` runs before the change and `newest` after it, which count as two at least. `least` is the
    smallest change that counts.
    """
    known, runs = min(max(history, 2), BLOCK), max(newest, 2)
    certain = CERTAIN_OF_FEW if known + runs < FEW else CERTAIN
    error = noise * math.sqrt(1 / runs + 1 / known)
    large, sure = _least_shift(runs, least), _deviations(certain, known - 1.0) * error
    return math.expm1(min(max(large, sure) + _FOUND * error, _LARGEST))


@cache
def _least_shift(runs: int, least: float) -> float:
    return math.log1p(float(least_of(np.array(float(runs)), np.array(least), np.array(False))))


@cache
def _deviations(certain: float, freedom: float) -> float:
    """Return the number of standard errors that are as certain as this score."""
    return float(t_value(math.exp(-certain), freedom))


@dataclass(frozen=True, slots=True)
class Beside:
    """Histories that were judged before. Their steps count in the control of false discoveries."""

    p_values: Sequence[float] = ()
    tests: int = 0


NOTHING_BESIDE = Beside()


def largest_believed(p_values: Sequence[float], tests: int, *, rate: float = STEP_RATE) -> float:
    """Return the largest p-value of a reported step; below 0 if none is reported."""
    rates = adjusted(p_values, tests=tests).tolist()
    return max((one for one, own in zip(p_values, rates, strict=True) if own <= rate), default=-1.0)


def courses(
    histories: Sequence[History],
    *,
    rate: float = STEP_RATE,
    beside: Beside = NOTHING_BESIDE,
    known: Sequence[Segmentation | None] | None = None,
) -> list[Course]:
    """Return levels and steps of each history.

    Of all steps, including those of `beside`, only this share is noise. `known` are the segmentations of the histories.
    """
    cases = [case_of(np.asarray(one.values, dtype=np.float64), one.rules) for one in histories]
    ends = segmentations(histories) if known is None else known
    judged = {at: one for at, one in enumerate(ends) if one is not None}
    steps: list[list[Step]] = [[] for _ in histories]
    newest: list[Judgement] = [_why_no_course(one) for one in histories]
    for at, (cuts, end) in judged.items():
        newest[at] = _judged(cases[at], end, len(cases[at].places) - 1)
        steps[at] = _steps(cases[at], cuts, end)
    found = [*(step.p_value for own in steps for step in own), *beside.p_values]
    largest = largest_believed(found, len(judged) + beside.tests, rate=rate)
    return [
        _course(history, case, own, last, largest=largest, is_tested=at in judged)
        for at, (history, case, own, last) in enumerate(zip(histories, cases, steps, newest, strict=True))
    ]


def _why_no_course(history: History) -> Judgement:
    question = Question(history.values[:-1], history.values[-1:], replace(history.rules, min_history=FEWEST_BEFORE))
    known = int(np.isfinite(history.values).sum())
    return _why_unjudged(question) or Judgement(None, "not enough history", Unjudged.NO_HISTORY, history=known)


def _steps(case: Case, cuts: Sequence[Cut], end: End) -> list[Step]:
    steps = [
        _step(case, cut.index, (cut.before, cut.shift), reach, len(case.places) * math.exp(-cut.score))
        for cut, reach in zip(cuts, _reaches(cuts), strict=True)
    ]
    began = len(case.places) - end.runs
    if end.holds and all(abs(began - cut.index) > _SAME for cut in cuts):
        steps.append(_step(case, began, (end.level, end.shift), end.reach, math.exp(-end.score)))
    return sorted(steps, key=lambda step: step.began)


def _reaches(cuts: Sequence[Cut]) -> list[float]:
    freedom = np.array([cut.freedom for cut in cuts])
    reaches: list[float] = (t_value(TAIL, freedom) * np.array([cut.error for cut in cuts])).tolist()
    return reaches


def _step(case: Case, index: int, change: tuple[float, float], reach: float, p_value: float) -> Step:
    level, shift = change
    fraction = case.change(level, shift)
    return Step(
        word=word_by(fraction, case.rules.min_effect, is_worse=shift > 0, is_certain=True),
        began=int(case.indices[index]),
        last_before=int(case.indices[index - 1]),
        first_after=int(case.indices[index]),
        before=case.value(level),
        after=case.value(level + shift),
        change=fraction,
        interval=case.interval(level, shift, reach),
        p_value=min(p_value, 1.0),
    )


def _with_ranges(case: Case, steps: Sequence[Step]) -> list[Step]:
    """Add to each step the runs between which it certainly lies."""
    ranges = located(case.places, np.searchsorted(case.indices, [step.began for step in steps]).tolist())
    return [
        replace(step, last_before=int(case.indices[before]), first_after=int(case.indices[after]))
        for step, (before, after) in zip(steps, ranges, strict=True)
    ]


def _course(
    history: History, case: Case, steps: Sequence[Step], newest: Judgement, *, largest: float, is_tested: bool
) -> Course:
    """Return the levels between the reported steps: those with a p-value of at most `largest`."""
    believed = _with_ranges(case, [step for step in steps if step.p_value <= largest])
    doubted = tuple(step.p_value for step in steps if step.p_value > largest)
    bounds = [0, *(step.began for step in believed), len(history.values)]
    levels = tuple(_level(history.values, *ends) for ends in pairwise(bounds) if ends[1] > ends[0])
    newest = newest if _is_among(newest, believed, case) else newest.doubted()
    return Course(levels, tuple(believed), newest, doubted, is_tested)


def _is_among(newest: Judgement, believed: Sequence[Step], case: Case) -> bool:
    """True if the change that the newest runs show is one of the reported steps."""
    if newest.began is None:
        return True
    began, *places = np.searchsorted(case.indices, [newest.began, *(step.began for step in believed)]).tolist()
    return any(abs(place - began) <= _SAME for place in places)


def _level(values: Floats, start: int, end: int) -> Level:
    finite = values[start:end][np.isfinite(values[start:end])]
    level = middle(finite) if len(finite) else float("nan")
    apart = middle(np.abs(np.diff(finite))) if len(finite) > 1 else 0.0
    return Level(start, end, level, 1.05 * apart / abs(level) if level else 0.0)


def compare(pairs: Sequence[Pair]) -> list[Judgement]:
    """Judge the runs of B against those of A, all pairs at once: of all steps only a small share is noise."""
    found = [_why_not_compared(pair) for pair in pairs]
    asked = [at for at, one in enumerate(found) if one is None]
    judged = dict(zip(asked, _of_pairs([pairs[at] for at in asked]), strict=True))
    answers = [one or judged[at] for at, one in enumerate(found)]
    is_step = [one.word in (Word.REGRESSION, Word.IMPROVEMENT) for one in answers]
    sure = discoveries([one.p_value if step else 1.0 for one, step in zip(answers, is_step, strict=True)]).tolist()
    return [one if believed else one.doubted() for one, believed in zip(answers, sure, strict=True)]


def _why_not_compared(pair: Pair) -> Judgement | None:
    """Return the reason against comparing two sets. Without a history, they need enough runs to tell their noise."""
    known = np.concatenate([pair.history, pair.before])
    question = Question(known, pair.after, pair.rules, pair.before)
    if unjudged := _why_unjudged(question):
        both = int(np.isfinite(pair.before).sum()), int(np.isfinite(pair.after).sum())
        if unjudged.unjudged is Unjudged.NO_HISTORY and min(both) > 1 and sum(both) >= pair.rules.min_history:
            return None
        before, after = (float(np.median(side)) if len(side) else math.nan for side in (pair.before, pair.after))
        change = (after - before) / abs(before) if before else math.nan
        return replace(unjudged, before=before, after=after, change=change)
    return None


def _of_pairs(pairs: Sequence[Pair]) -> list[Judgement]:
    if not pairs:
        return []
    cases = [_case_of_pair(pair) for pair in pairs]
    before, _ = table_of([case.to(pair.before)[-BLOCK:] for case, pair in zip(cases, pairs, strict=True)])
    after, counts = table_of([case.to(pair.after)[-BLOCK:] for case, pair in zip(cases, pairs, strict=True)])
    scatter, _ = table_of(_scatters(pairs, cases))
    with rows_may_be_empty():
        ends = ends_of(counts, weigh(before, after, effects_of(cases), scatter, np.zeros(len(cases), dtype=bool)))
    return [
        replace(_judged(case, end, len(pair.history)), began=None)
        for case, end, pair in zip(cases, ends, pairs, strict=True)
    ]


def _case_of_pair(pair: Pair) -> Case:
    return case_of(pair.history, pair.rules, np.concatenate([pair.before, pair.after]))


def _scatters(pairs: Sequence[Pair], cases: Sequence[Case]) -> list[Floats]:
    """For each pair, return the distances of its history's runs from their levels; without a history, of A and B."""
    found: list[Floats] = [
        np.concatenate([own - np.median(own) for own in (case.to(pair.before), case.to(pair.after)) if len(own)])
        for pair, case in zip(pairs, cases, strict=True)
    ]
    rows = [at for at, case in enumerate(cases) if len(case.places) >= FEWEST_BEFORE]
    for at, (cuts, end) in zip(rows, cuts_and_ends([cases[at] for at in rows], [1] * len(rows)), strict=True):
        places = cases[at].places
        last = [len(places) - end.runs] if end.holds else []
        bounds = sorted({0, *(cut.index for cut in cuts), *last, len(places)})
        levels = [places[start:stop] - np.median(places[start:stop]) for start, stop in pairwise(bounds)]
        found[at] = np.concatenate(levels)[-EARLIER:]
    return found


def compare_rounds(asked: Sequence[Rounds], *, rate: float = ROUNDS_RATE) -> list[Judgement]:
    """Judge environments measured in turns, round against round, so that a drift of the machine cancels out."""
    found = [paired_change(one.first, one.other) for one in asked]
    sure = iter(discoveries([change.p_value for change in found if change], rate=rate).tolist())
    return [
        Judgement(None, f"fewer than {ROUNDS} rounds of both", Unjudged.NO_HISTORY)
        if change is None
        else _of_rounds(one, change, is_sure=next(sure))
        for one, change in zip(asked, found, strict=True)
    ]


def _visible_in(rounds: int, error: float, *, least: float) -> float:
    """Return the same as `visible_change`, for a difference of so many rounds with this standard error."""
    sure = float(t_value(ROUNDS_RATE / 2, rounds - 1.0)) * error
    return math.expm1(min(max(math.log1p(least), sure) + _FOUND * error, _LARGEST))


def _of_rounds(one: Rounds, change: Change, *, is_sure: bool) -> Judgement:
    is_worse = (change.change > 0) == (one.rules.better is Better.LESS)
    word = word_by(change.change, one.rules.min_effect, is_worse=is_worse, is_certain=is_sure)
    rounds = min(len(one.first), len(one.other))
    judgement = Judgement(
        word=word,
        reason=f"{change.change:+.1%} in {rounds} rounds",
        before=change.before,
        after=change.after,
        change=change.change,
        interval=change.interval,
        p_value=change.p_value,
        history=rounds,
        visible=_visible_in(rounds, change.error, least=one.rules.min_effect) if math.isfinite(change.error) else None,
        decides="more rounds decide" if word is Word.INCONCLUSIVE else "",
    )
    if one.rules.better is None:
        reason = f"{judgement.reason}; whether less or more of it is better is not known: declare `better`"
        return replace(judgement, word=None, unjudged=Unjudged.NOT_COMPARABLE, reason=reason, decides="")
    return judgement
