"""How much a metric changed between two stretches of runs, how certain that is, and between which bounds it lies."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from curator_bench.verdict.noise import Noise, blocks_of, correlations, noise_of
from curator_bench.verdict.scale import Scale, as_floats, scale_of
from curator_bench.verdict.tails import LEAST, Floats, covariance_of_neighbours, t_tail

CONFIDENCE = 0.95
_REACHES = 10.0 ** np.linspace(-1, 2.5, 80)
"""In standard errors: where the tail is computed; between them it is interpolated."""


@dataclass(frozen=True, slots=True)
class Change:
    """From one level to another; fractions are of the level before, 0.1 is 10 % more."""

    before: float
    after: float
    change: float
    interval: tuple[float, float]
    p_value: float
    """The chance that noise alone makes two levels differ as much, in either direction."""


def change_between(
    before: Sequence[float] | Floats, after: Sequence[float] | Floats, *, confidence: float = CONFIDENCE
) -> Change:
    """The change between two stretches of runs, each in the order it was measured and each of one level.

    Outliers do not count, and runs that resemble the run before them count less.
    """
    first, second = as_floats(before), as_floats(after)
    scale = scale_of(np.concatenate([first, second]))
    return changes_of(noise_of(blocks_of([[scale.to(first), scale.to(second)]])), [scale], [confidence])[0]


def changes_of(noise: Noise, scales: Sequence[Scale], confidences: Sequence[float]) -> list[Change]:
    """For each row the change from its last block but one to the last."""
    levels = zip(scales, noise.levels[:, -2].tolist(), noise.levels[:, -1].tolist(), strict=True)
    measures = zip(_reaches(noise, confidences), tail_of_difference(noise).tolist(), strict=True)
    return [
        Change(
            before=scale.back(before),
            after=scale.back(after),
            change=scale.change(before, after),
            interval=(scale.change(before, after - reach), scale.change(before, after + reach)),
            p_value=min(1.0, 2 * tail),
        )
        for (scale, before, after), (reach, tail) in zip(levels, measures, strict=True)
    ]


def tail_of_difference(noise: Noise) -> Floats:
    """For each row the chance that its last two levels differ by as much or more, in this direction, by noise alone."""
    difference = np.abs(noise.levels[:, -1] - noise.levels[:, -2])
    tails = t_tail(difference[:, None] / _errors(noise), noise.freedom)
    chances: Floats = np.sum(noise.weights * tails, axis=1)
    return chances


def _errors(noise: Noise) -> Floats:
    """(rows, correlations): the standard error of the difference of the last two levels.

    A block that scatters more than all of them together counts with a spread of its own.
    """
    own = np.maximum(noise.spreads / noise.spread[:, None], 1.0) ** 2
    count, other = (np.maximum(noise.counts[:, block], 1)[:, None] for block in (-1, -2))
    parts = own[:, -1:] * noise.level_variance(-1) + own[:, -2:-1] * noise.level_variance(-2)
    parts = parts - 2 * covariance_of_neighbours(count, other, correlations())
    errors: Floats = np.sqrt(noise.variance * parts)
    return errors


def _reaches(noise: Noise, confidences: Sequence[float]) -> list[float]:
    """For each row how far the true difference may be from the measured one, on the scale."""
    errors = _errors(noise)
    reaches = _REACHES * np.max(errors, axis=1, keepdims=True)
    tails = t_tail(reaches[:, :, None] / errors[:, None, :], noise.freedom[:, None, :])
    missed = -np.log(np.maximum(np.sum(noise.weights[:, None, :] * tails, axis=2), LEAST))
    wanted = [-math.log((1 - confidence) / 2) for confidence in confidences]
    return [float(np.interp(*row)) for row in zip(wanted, missed, reaches, strict=True)]
