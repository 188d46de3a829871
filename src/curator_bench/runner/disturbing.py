"""Decides whether a run was disturbed, from its metrics and the user's setting."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from curator_bench.collection.benchmarks import BENCHMARKS
from curator_bench.values import Scalar, Verdict
from curator_bench.verdict.disturbance import disturbed

_MEASURED = (Verdict.PASSED, Verdict.FAILED)


def disturbed_by(config: pytest.Config, verdict: Verdict, metrics: Mapping[str, Scalar]) -> str | None:
    """Return what disturbed a run; empty if nothing did, None if it is not known.

    None for runs that did not end, whose verdict is history all the same, and with `--bench-disturbed count`.
    """
    if verdict not in _MEASURED or config.stash[BENCHMARKS].settings.disturbed_count:
        return None
    return disturbed(metrics)


def warning_of(disturbance: str | None) -> tuple[str, ...]:
    """Return the warning about a disturbed run; empty if it was not."""
    return (f"disturbed, so it is no part of history: {disturbance}",) if disturbance else ()
