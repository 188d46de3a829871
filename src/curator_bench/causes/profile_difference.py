"""Explains the difference of two sides by the functions in their profiles: a pure function of what was sampled.

    found = profile_difference(before, after)       # the profiles of each side, of one run each
    lines = profile_wording.conclusion(found)       # or profile_wording.document for JSON

A function is named where the time was added: in its own time, not in that of all its callers. Of a function that many
share, the caller is named with it. Each cause is looked for without the stacks of those that are named already.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property

import numpy as np

from curator_bench.causes.profile_noise import Noise, noise_of, restless
from curator_bench.causes.profile_samples import Groups, Kind, Samples
from curator_bench.errors import BenchError
from curator_bench.values.profiles import Profile
from curator_bench.verdict.cases import MIN_EFFECT
from curator_bench.verdict.distributions import Bools, Floats, normal_score
from curator_bench.verdict.joint import CONFIDENCE
from curator_bench.verdict.judgement import Word, word_by

USUAL_SHARE = 0.02
"""Share of a run that a function must have for its smallest visible change to be told."""
_FAMILIES = {
    (True, 1): 0.5,
    (True, 2): 0.3,
    (True, 3): 0.04,
    (True, 4): 0.04,
    (False, 1): 0.06,
    (False, 2): 0.03,
}
"""Parts of the chance of a wrong name, by whether a group is a whole own time, and by its depth."""
_OF_TOTALS = 0.03
_LARGE, _SMALL = 0.02, 0.01
"""Groups with this share of the run or more are all given the same chance; smaller ones less, and small ones little."""
_LEAST_SHARE = 0.002
"""Share of the run by which a function must change to count."""
_FEWEST_SAMPLES = 25
_MOST_NAMED, _MOST_SHOWN = 10, 12
_AS_GOOD = 0.9
"""Totals that are nearly as certain as the surest. The smallest of them is named: the place, not its callers."""
_THROUGH_ONE = 0.75
"""A caller is named through which this part of a difference came."""
_POSSIBLE = 20.0
"""A change is worth more samples if it would be certain with this many times the chance of a wrong name."""
_FOUND = 0.84
"""In standard errors: what is found 80 % of the time exceeds the least certain change by this much."""
_MOST_TIMES = 30
_MOST_OF_IT = 0.5
_EXPLAINS = 0.5
"""Waiting follows from computing if that changed by this part of it: who waits for a result waits for what computes."""


class Certainty(StrEnum):
    """The word for what the profiles tell."""

    CERTAIN = "certain"
    MORE = "more samples needed"
    NOTHING = "nothing"


@dataclass(frozen=True, slots=True)
class FunctionChange:
    """The change of one function. Times are seconds per run; with profiles in bytes, bytes."""

    function: str
    kind: Kind
    """Its own time, computing or waiting; or TOTAL: spread over what it calls."""
    callers: tuple[str, ...]
    """Its callers, from the nearest on, through which the difference came; empty if through many."""
    word: Word
    before: float
    after: float
    total: tuple[float, float]
    """Time of the function with all that it calls, before and after."""
    change: float
    """The change of its time as a fraction; infinite for a new function."""
    interval: tuple[float, float]
    """Interval of the difference in seconds, beyond what all functions share. All intervals hold at once."""
    visible: float
    """Smallest change, as a fraction, that would have been found."""

    @property
    def added(self) -> float:
        return self.after - self.before


@dataclass(frozen=True, slots=True)
class ProfileDifference:
    """The difference of two sides by functions. Times are means over the runs of a side."""

    profiler: str
    unit: str
    runs: tuple[int, int]
    samples: tuple[int, int]
    before: float
    after: float
    named: tuple[FunctionChange, ...]
    """Functions that explain the difference, the most important first."""
    others: tuple[FunctionChange, ...]
    """The other functions whose own time changed most."""
    shared: float
    """Change that all functions that compute share, as a fraction, such as of a slower machine."""
    shared_error: float
    visible: float
    """Smallest change that would have been found in a function with `USUAL_SHARE` of the run."""
    certainty: Certainty
    more: int | None = None
    """For `MORE`: how many times as many samples would probably tell; None if too many."""
    doubtful: FunctionChange | None = None
    """For `MORE`: the change that more samples would decide, if there is one."""

    @property
    def is_shared(self) -> bool:
        """True if all functions that compute changed by more than nothing."""
        return abs(self.shared) >= MIN_EFFECT and abs(math.log1p(self.shared)) > 3 * self.shared_error

    @property
    def is_explained(self) -> bool:
        """True if the named functions make up most of the difference, without what all share: a machine may be busy."""
        shared = self.shared * self.before if self.is_shared else 0.0
        difference = self.after - self.before - shared
        named = sum(one.added for one in self.named)
        return bool(self.named) and named * math.copysign(1.0, difference) >= _MOST_OF_IT * abs(difference)


def profile_difference(
    before: Sequence[Profile], after: Sequence[Profile], *, limit: float = MIN_EFFECT, looks: int = 1
) -> ProfileDifference:
    """Name the functions that explain the difference. `limit` is the smallest change of a function that counts.

    Whoever looks at growing profiles until something is certain says how often at most: `looks` share the chance of a
    wrong name.
    Raises BenchError if a side has no samples, or the profiles are of different profilers.
    """
    kinds = {(profile.profiler, profile.unit) for profile in (*before, *after)}
    for side, text in ((before, "before"), (after, "after")):
        if not side or not any(profile.total for profile in side):
            raise BenchError(f"no profile {text} has samples")
    if len(kinds) > 1:
        raise BenchError(f"these profiles cannot be compared: {', '.join(sorted(name for name, _ in kinds))}")
    full = [[profile for profile in side if profile.total] for side in (before, after)]
    found = _Comparison.of(Samples.of(*full), limit, (1 - CONFIDENCE) / looks)
    named = found.named()
    certainty, more, doubtful = found.certainty(named)
    totals = [float(side.sum()) for side in found.samples.means]
    return ProfileDifference(
        profiler=before[0].profiler,
        unit=before[0].unit,
        runs=found.samples.runs,
        samples=(sum(one.total for one in before), sum(one.total for one in after)),
        before=totals[0],
        after=totals[1],
        named=tuple(named),
        others=tuple(found.others(named)),
        shared=math.expm1(found.noise.shift),
        shared_error=found.noise.shift_error,
        visible=found.visible_share(USUAL_SHARE),
        certainty=certainty,
        more=more,
        doubtful=doubtful,
    )


@dataclass(frozen=True, slots=True)
class _Tested:
    """All groups, compared once. Of a group that is not tested, the score is zero."""

    raw: tuple[Floats, Floats]
    difference: Floats
    error: Floats
    scores: Floats
    """Differences in standard errors, as a share of what is needed to be certain."""
    needed: Floats

    def sigmas(self, group: int) -> float:
        """Return the difference of a group in standard errors."""
        return float(self.scores[group] * self.needed[group])

    def is_certain(self, group: int) -> bool:
        return abs(float(self.scores[group])) >= 1.0


@dataclass(frozen=True)
class _Comparison:
    """The groups of two sides, with the noise of their times."""

    samples: Samples
    groups: Groups
    noise: Noise
    adjusted: Floats
    """Times of stacks without what all share."""
    weights: Floats
    """Divide the chance of a wrong name between the groups; zero for those that say what others say."""
    limit: float
    error: float
    """The chance of a wrong name."""

    @classmethod
    def of(cls, samples: Samples, limit: float, error: float) -> _Comparison:
        groups = Groups.of(samples)
        noise = noise_of(samples, groups)
        factors = np.ones_like(samples.times)
        factors[~samples.is_waiting, samples.runs[0] :] = math.exp(-noise.shift)
        weights = _weights(samples, groups)
        return cls(samples, groups, noise, samples.times * factors, weights, limit, error)

    @property
    def run_s(self) -> float:
        return float(self.samples.means[0].sum())

    def tested(self, left: Bools | None = None) -> _Tested:
        """Compare the groups, with these stacks only."""
        kept = np.ones(len(self.samples.stacks), dtype=bool) if left is None else left
        raw = self.samples.of_sides(self.groups.summed(self.samples.times * kept[:, None]))
        before, after = self.samples.of_sides(self.groups.summed(self.adjusted * kept[:, None]))
        level = self.noise.level(before, after)
        error = np.sqrt(self.noise.variance(level, self._spreads, self._shift_errors) * self._restless)
        needed = self._needed
        difference = after - before
        least = np.maximum(self.limit * before, _LEAST_SHARE * self.run_s)
        is_tested = (self.weights > 0) & (np.abs(difference) >= least) & (error > 0)
        is_tested &= level > _FEWEST_SAMPLES * float(self.samples.grain.mean())
        is_tested &= (raw[1] >= raw[0]) == (difference >= 0)
        is_tested &= ~self._is_of_a_kind | (
            difference[self.groups.parents] * np.sign(difference) >= np.abs(difference) / 2
        )
        scores = np.where(is_tested, difference / np.maximum(error, 1e-300) / needed, 0.0)
        return _Tested(raw, difference, error, scores, needed)

    @cached_property
    def _is_of_a_kind(self) -> Bools:
        """Groups that compute, or wait: a change counts if the whole own time of the function changed with it."""
        return self.groups.of_kind(Kind.COMPUTING) | self.groups.of_kind(Kind.WAITING)

    @cached_property
    def _waits(self) -> Floats:
        return self.groups.waiting_shares(self.samples)

    @cached_property
    def _spreads(self) -> Floats:
        return np.where(self._waits < 0.5, *self.noise.spread)

    @cached_property
    def _restless(self) -> Floats:
        times = self.groups.summed(self.adjusted)
        return restless(self.noise, times, self.samples, self._spreads)

    @cached_property
    def _shift_errors(self) -> Floats:
        return (1 - self._waits) * self.noise.shift_error

    @cached_property
    def _needed(self) -> Floats:
        """Return how many standard errors make a group certain."""
        return _quantiles(self.error * np.where(self.weights > 0, self.weights, 1e-9))

    def named(self) -> list[FunctionChange]:
        left = np.ones(len(self.samples.stacks), dtype=bool)
        found: list[FunctionChange] = []
        for _ in range(_MOST_NAMED):
            tested = self.tested(left)
            place = self._most_certain(tested)
            if place is None:
                break
            found.append(self._change(place, tested))
            left[self.groups.stacks_of(place)] = False
        return sorted(found, key=lambda one: _order(one, found))

    def _most_certain(self, tested: _Tested) -> int | None:
        """Return the group to be named next: own times before totals, functions as a whole before single callers."""
        is_total = self.groups.of_kind(Kind.TOTAL)
        for chosen in (~is_total, is_total):
            scores = np.where(chosen, np.abs(tested.scores), 0.0)
            best = int(np.argmax(scores)) if len(scores) else -1
            if best < 0 or scores[best] < 1.0:
                continue
            return self._innermost(tested, best) if is_total[best] else self._outermost(tested, best)
        return None

    def _outermost(self, tested: _Tested, place: int) -> int:
        """Return the group with the fewest callers that is as certain: a change of them all, or through one of them."""
        found, at = place, place
        while (at := int(self.groups.parents[at])) >= 0:
            if tested.sigmas(at) * np.sign(tested.sigmas(place)) >= abs(tested.sigmas(found)):
                found = at
        return found

    def _innermost(self, tested: _Tested, place: int) -> int:
        """Return the smallest of the totals that are nearly as certain."""
        good = self.groups.of_kind(Kind.TOTAL) & (
            tested.scores * np.sign(tested.scores[place]) >= _AS_GOOD * abs(tested.scores[place])
        )
        return min(np.flatnonzero(good).tolist(), key=lambda at: float(tested.raw[1][at]))

    def _change(self, place: int, tested: _Tested, word: Word | None = None) -> FunctionChange:
        group = self.groups.groups[place]
        before, after = (float(side[place]) for side in tested.raw)
        error, needed = float(tested.error[place]), float(tested.needed[place])
        change = after / before - 1 if before else math.inf
        middle = float(tested.difference[place])
        reach = needed * error
        said = word or word_by(change, self.limit, is_worse=change > 0, is_certain=tested.is_certain(place))
        return FunctionChange(
            function=group.context[0],
            kind=self._kind(place, middle),
            callers=(*group.context[1:], *self._callers(place, tested)),
            word=said,
            before=before,
            after=after,
            total=self._total_of(group.context[0]),
            change=change,
            interval=(middle - reach, middle + reach),
            visible=(needed + _FOUND) * error / before if before else math.inf,
        )

    def _kind(self, place: int, difference: float) -> Kind:
        """Return what most of the difference of a group is."""
        kind = self.groups.groups[place].kind
        if kind is not Kind.OWN:
            return kind
        rows = self.groups.stacks_of(place)
        before, after = self.samples.of_sides(self.adjusted[rows[self.samples.is_waiting[rows]]])
        waits = float((after - before).sum())
        return Kind.WAITING if difference and waits / difference > 0.5 else Kind.COMPUTING

    def _callers(self, place: int, tested: _Tested) -> Iterator[str]:
        """Yield further callers while nearly all of the difference came through one of them."""
        at = place
        if self._is_of_a_kind[at]:
            at = int(self.groups.parents[at])
        while self.groups.groups[at].kind is not Kind.TOTAL:
            children = np.flatnonzero((self.groups.parents == at) & (self.groups.depths > self.groups.depths[at]))
            whole = float(tested.difference[at])
            if not len(children) or not whole:
                return
            at = int(children[np.argmax(tested.difference[children] * np.sign(whole))])
            if tested.difference[at] / whole < _THROUGH_ONE:
                return
            yield self.groups.groups[at].context[-1]

    def _total_of(self, function: str) -> tuple[float, float]:
        chosen = np.array([function in stack for stack in self.samples.stacks], dtype=bool)
        before, after = self.samples.means
        return float(before[chosen].sum()), float(after[chosen].sum())

    def others(self, named: Sequence[FunctionChange]) -> Iterator[FunctionChange]:
        """Yield the functions whose own time changed most, without those that are named."""
        tested = self.tested()
        known = {one.function for one in named}
        own = np.flatnonzero(self.groups.functions)
        own = own[np.argsort(-np.abs(tested.difference[own]))]
        wanted = [at for at in own.tolist() if self.groups.groups[at].context[0] not in known]
        for at in wanted[: max(0, _MOST_SHOWN - len(named))]:
            # A function whose callers are named may be certain as a whole as well.
            doubt = Word.INCONCLUSIVE if tested.is_certain(at) else None
            yield self._change(at, tested, doubt)

    def visible_share(self, share: float) -> float:
        """Return the smallest change that would have been found in a function with this share of the run."""
        level = np.array([share * self.run_s])
        spread = np.array([max(self.noise.spread)])
        needed = _quantiles(self.error * np.array([self._weight_of(share)]))
        error = float(np.sqrt(self.noise.variance(level, spread, np.array([self.noise.shift_error])))[0])
        return (float(needed[0]) + _FOUND) * error / float(level[0])

    def _weight_of(self, share: float) -> float:
        shares = _shares(self.groups, self.samples)[self.groups.functions]
        return _FAMILIES[True, 1] * float(_importance(np.array([share]))[0] / max(_importance(shares).sum(), share))

    def certainty(self, named: Sequence[FunctionChange]) -> tuple[Certainty, int | None, FunctionChange | None]:
        """Return whether something is certain, or more samples would tell: how many times as many, and of what."""
        if named:
            return Certainty.CERTAIN, None, None
        if not self.groups.groups:
            return Certainty.NOTHING, None, None
        tested = self.tested()
        best = int(np.argmax(np.abs(tested.scores)))
        possible = _quantiles(_POSSIBLE * self.error * np.maximum(self.weights[best : best + 1], 1e-9))
        sigmas = abs(float(tested.scores[best] * tested.needed[best]))
        if sigmas < float(possible[0]):
            return Certainty.NOTHING, None, None
        times = math.ceil(((float(tested.needed[best]) + _FOUND) / sigmas) ** 2)
        more = times if times <= _MOST_TIMES else None
        return Certainty.MORE, more, self._change(best, tested, Word.INCONCLUSIVE)


def _order(one: FunctionChange, all_named: Sequence[FunctionChange]) -> tuple[bool, float]:
    """Sort by the time that was added. Waiting comes last where computing explains it: some wait for what computes."""
    alike = [abs(other.added) for other in all_named if other.kind is not Kind.WAITING and other.added * one.added > 0]
    follows = one.kind is Kind.WAITING and sum(alike) > _EXPLAINS * abs(one.added)
    return follows, -abs(one.added)


def _shares(groups: Groups, samples: Samples) -> Floats:
    means = [side[:, None] for side in samples.means]
    total = sum(float(one.sum()) for one in means)
    shares: Floats = groups.summed(means[0] + means[1])[:, 0] / (total or 1.0)
    return shares


def _weights(samples: Samples, groups: Groups) -> Floats:
    """Divide the chance of a wrong name between the groups. One that has all stacks of its parent says the same."""
    shares = _shares(groups, samples)
    weights = np.zeros(len(shares))
    is_total = groups.of_kind(Kind.TOTAL)
    is_same = (groups.parents >= 0) & (shares >= shares[groups.parents] * (1 - 1e-9))
    families: list[tuple[Bools, float]] = [(is_total & (shares < 1 - 1e-9), _OF_TOTALS)]
    is_own = groups.of_kind(Kind.OWN)
    families += [
        (~is_total & ~is_same & (is_own == whole) & (groups.depths == depth), part)
        for (whole, depth), part in _FAMILIES.items()
    ]
    for chosen, part in families:
        own = _importance(shares[chosen])
        if own.sum():
            weights[chosen] = part * own / own.sum()
    return weights


def _importance(shares: Floats) -> Floats:
    importance: Floats = np.minimum(shares, _LARGE) * np.minimum(shares / _SMALL, 1.0)
    return importance


def _quantiles(chances: Floats) -> Floats:
    """Return the standard errors that a normal value exceeds, on either side, with these chances."""
    steps = np.linspace(0.0, 12.0, 1201)
    scores = normal_score(steps)
    found: Floats = np.interp(-np.log(np.minimum(chances / 2, 0.5)), scores, steps)
    return found
