"""The one shape of an answer about a metric, and its four words; the standard library is all it needs."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum

_ROUNDED = 1 - 1e-9
"""A change of exactly the limit is not within it, however it was rounded."""


class Word(StrEnum):
    """All that a comparison of a metric may say. Nothing else is printed for it anywhere."""

    REGRESSION = "regression"
    IMPROVEMENT = "improvement"
    NO_CHANGE = "no change"
    INCONCLUSIVE = "inconclusive"


def word_by(change: float, limit: float, *, is_worse: bool, is_certain: bool) -> Word:
    """Return the word of a change: the one rule of all comparisons. Both are fractions, as people read them.

    Within the limit is no change; at the limit or beyond it is inconclusive, unless it is certain.
    """
    if abs(change) < limit * _ROUNDED:
        return Word.NO_CHANGE
    if not is_certain:
        return Word.INCONCLUSIVE
    return Word.REGRESSION if is_worse else Word.IMPROVEMENT


class Unjudged(StrEnum):
    """Reason for having no word."""

    NO_HISTORY = "no history"
    NOT_COMPARABLE = "not comparable"


@dataclass(frozen=True, slots=True)
class Judgement:
    """The judgement of a metric. Values are in its own unit; change, noise and visible are fractions: 0.03 is 3 %."""

    word: Word | None
    reason: str
    """One sentence for people: how large the change is and why the word is this one, or why there is none."""
    unjudged: Unjudged | None = None
    """Set where `word` is not."""
    before: float | None = None
    """The level that the newest runs are compared with."""
    after: float | None = None
    """The level of the runs since `began`; without `began`, of the newest runs in question."""
    change: float | None = None
    interval: tuple[float, float] | None = None
    """95 % confidence interval of the change."""
    p_value: float = 1.0
    """The chance that noise explains the change. It is comparable between metrics, for use in `false_discovery`."""
    began: int | None = None
    """The first run of the new level: an index into the history followed by the newest runs. Only regressions and
    improvements have one, and only if they were compared with the history and not with a baseline."""
    history: int = 0
    """The number of runs before that it was compared with."""
    noise: float | None = None
    """The usual distance of one run from the level while nothing changes."""
    visible: float | None = None
    """The smallest change that would have been found 80 % of the time, with this history and noise."""
    decides: str = ""
    """For an inconclusive metric: the measurements that would decide it."""

    @property
    def says(self) -> str:
        """The text that is printed as the verdict."""
        return str(self.word or self.unjudged)

    def doubted(self) -> Judgement:
        """Make a regression or improvement inconclusive, because chance explains it among so many tests."""
        if self.word not in (Word.REGRESSION, Word.IMPROVEMENT):
            return self
        decides = "measuring again decides: of so many metrics some differ as much by chance"
        return replace(self, word=Word.INCONCLUSIVE, began=None, decides=decides)

    def is_blind_to(self, limit: float) -> bool:
        """True if a change as large as this limit would probably have been missed."""
        return self.word is not None and self.visible is not None and self.visible > limit


@dataclass(frozen=True, slots=True)
class Level:
    """A stretch of runs between two steps, from index `start` up to `end`, with its median and noise."""

    start: int
    end: int
    middle: float
    noise: float


@dataclass(frozen=True, slots=True)
class Step:
    """A new level within a history. It begins with the run at `began`, and is a regression or an improvement.

    A step back can be a little smaller than the limit: after +3 % it is -2.9 %. Then its word is `no change`, but it
    ends the regression.
    """

    word: Word
    began: int
    last_before: int
    """The last run that is certainly before it."""
    first_after: int
    """The first run that is certainly after it."""
    before: float
    after: float
    change: float
    interval: tuple[float, float]
    p_value: float


@dataclass(frozen=True, slots=True)
class Trend:
    """A whole history: its levels, the steps between them, and the judgement of its newest runs."""

    levels: tuple[Level, ...]
    steps: tuple[Step, ...]
    """The oldest first."""
    newest: Judgement
    """The judgement of the end of the history: the last step if it is recent, else the reason for none."""
    doubted: tuple[float, ...] = ()
    """The p-values of steps that are not reported, because they may be false discoveries."""
    is_tested: bool = False
    """True if the history is long enough to look for steps."""

    @property
    def p_values(self) -> tuple[float, ...]:
        """The p-values of all steps, reported or not."""
        return (*(step.p_value for step in self.steps), *self.doubted)


@dataclass(frozen=True, slots=True)
class Mark:
    """A fixed point of a history, for comparison with its level now: the level around the run at `index`."""

    name: str
    """Its name in a text after "since": `release 1.2`, `2026-05-01`, `30 days ago`."""
    index: int


@dataclass(frozen=True, slots=True)
class Drift:
    """A slow change for the worse that no step explains."""

    since: str
    """The name of the mark; `its best` for the best level."""
    index: int
    """The run at the mark, or the middle run of the best level."""
    before: float
    after: float
    change: float
    interval: tuple[float, float]
    p_value: float
