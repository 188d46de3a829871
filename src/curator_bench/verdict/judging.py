"""Judge the newest runs of metrics, and two sets of runs. The docstring of the room explains how."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np

from curator_bench.verdict.cases import MIN_EFFECT, Case, Question, Rules, case_of
from curator_bench.verdict.distributions import Floats
from curator_bench.verdict.ends import EARLIER, FEWEST_BEFORE, End, cuts_and_ends, effects_of, ends_of
from curator_bench.verdict.false_discovery import discoveries
from curator_bench.verdict.judgement import Judgement, Unjudged, Word, word_by
from curator_bench.verdict.newest import weigh
from curator_bench.verdict.noise import BLOCK, rows_may_be_empty, table_of
from curator_bench.verdict.visible import visible_change
from curator_bench.words import multiple

GATE_RUNS = 150
"""The number of runs that a gate reads. Older levels do not help to judge the newest run."""
_MOST_RUNS = 30
_TOO_LITTLE_TO_SAY = 0.0005


@dataclass(frozen=True, slots=True)
class Pair:
    """The two sides of a comparison: the runs of A and of B, and older runs beside B, which tell the noise."""

    before: Floats
    after: Floats
    history: Floats
    rules: Rules


def judge(questions: Sequence[Question]) -> list[Judgement]:
    """Judge the newest runs of each question, against the history or against its own baseline."""
    answers: list[Judgement | None] = [why_unjudged(question) for question in questions]
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


def why_unjudged(question: Question) -> Judgement | None:
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
        judged_end(case, end, len(case.places) - count + earlier)
        for case, (_, end), count, earlier in zip(cases, ends, newest, left_out, strict=True)
    ]


def judged_end(case: Case, end: End, known: int) -> Judgement:
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
    for more in range(1, _MOST_RUNS + 1):
        if visible_change(noise, end.history, end.runs + more) <= abs(change):
            return f"measuring again decides: {more} more run{'s' if more > 1 else ''} like this would be certain"
    if 2 * noise < abs(change) < 2 * MIN_EFFECT:
        return "measuring again may not decide: the change is close to the limit"
    return f"too noisy to judge: with noise of {noise:.1%}, {_MOST_RUNS} more runs like this would not be certain"


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
    if unjudged := why_unjudged(question):
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
        replace(judged_end(case, end, len(pair.history)), began=None)
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
