"""The rules that are compared: each says of series of run times, the oldest first, whether the newest run is an alarm.

Each is used as its own documentation or code has it, and imported only when it is asked for: asv and Otava are
installed in an environment of their own, without curator-bench.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from generated_series import Floats
from numpy.typing import NDArray

Detector = Callable[[Sequence[Floats]], NDArray[np.bool_]]
_LAST = 10


def ours(series: Sequence[Floats]) -> NDArray[np.bool_]:
    from curator_bench.verdict.judgement import Word

    return _judged(series, Word.REGRESSION)


def improvements(series: Sequence[Floats]) -> NDArray[np.bool_]:
    """Ours, for the other direction: on noise an improvement should be as rare as an alarm."""
    from curator_bench.verdict.judgement import Word

    return _judged(series, Word.IMPROVEMENT)


def _judged(series: Sequence[Floats], word: str) -> NDArray[np.bool_]:
    from curator_bench.verdict.cases import Question, Rules
    from curator_bench.verdict.direction import Better
    from curator_bench.verdict.judging import judge

    rules = Rules(Better.LESS)
    return np.array([one.word == word for one in judge([Question(one[:-1], one[-1:], rules) for one in series])])


def three_sigma(series: Sequence[Floats]) -> NDArray[np.bool_]:
    """All of the last three runs are above the mean of the ten before by three standard deviations."""
    return np.array([bool(np.all(one[-3:] >= one[-13:-3].mean() + 3 * one[-13:-3].std(ddof=1))) for one in series])


def asv(series: Sequence[Floats]) -> NDArray[np.bool_]:
    """asv publishes a regression, with its usual threshold of 5 %."""
    from asv.step_detect import detect_regressions, detect_steps

    return np.array([detect_regressions(detect_steps(list(one)), 0.05)[0] is not None for one in series])


def otava(series: Sequence[Floats]) -> NDArray[np.bool_]:
    """Otava, with its usual settings, has a change point upwards among the last ten runs."""
    from otava.analysis import compute_change_points

    def is_alarm(one: Floats) -> bool:
        points, _ = compute_change_points([float(value) for value in one])
        return any(point.index >= len(one) - _LAST and point.stats.mean_2 > point.stats.mean_1 for point in points)

    return np.array([is_alarm(one) for one in series])


DETECTORS: dict[str, Detector] = {
    "curator-bench": ours,
    "three-sigma": three_sigma,
    "asv": asv,
    "otava": otava,
}
