"""The fixed points of a history that drift is measured from: the last release or tag, 30 and 90 days ago."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

import numpy as np

from curator_bench.verdict.distributions import Floats
from curator_bench.verdict.judgement import Mark

DAYS = (30, 90)
_SECONDS_A_DAY = 86_400


@dataclass(frozen=True, slots=True)
class Release:
    """A release or a tag: its name, its commit, and when it was made, in seconds since 1970."""

    name: str
    commit: str
    time: float


def marks_of(starts: Floats, commits: Sequence[str | None], releases: Sequence[Release]) -> list[Mark]:
    """The marks of a history whose runs began at `starts`, the oldest first.

    The best level is no mark: `drifts` finds it. A release stands at the run of its commit, else at the last run before
    the release.
    """
    if len(starts) == 0:
        return []
    ages = [int(np.searchsorted(starts, starts[-1] - days * _SECONDS_A_DAY, side="right")) - 1 for days in DAYS]
    marks = [Mark(day_of(float(starts[at])), at) for at in ages if at >= 0]
    release = _last_release(starts, commits, releases)
    return marks if release is None else [release, *marks]


def day_of(start: float) -> str:
    """Return the day of a run as text."""
    return f"{datetime.fromtimestamp(start, UTC):%Y-%m-%d}"


def _last_release(starts: Floats, commits: Sequence[str | None], releases: Sequence[Release]) -> Mark | None:
    """Return the newest release that has later runs."""
    places = {commit: at for at, commit in enumerate(commits) if commit}
    last = len(starts) - 1
    for release in sorted(releases, key=lambda one: one.time, reverse=True):
        before = int(np.searchsorted(starts, release.time, side="right")) - 1
        at = places.get(release.commit, before)
        if 0 <= at < last:
            return Mark(f"{release.name} ({day_of(float(starts[at]))})", at)
    return None
