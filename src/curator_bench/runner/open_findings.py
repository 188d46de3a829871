"""The open findings of the entries whose gates an invocation asked, looked up once at its end.

A level that has been slow for many runs is what a gate compares with, so the gate passes while the regression is open.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

import pytest

from curator_bench.collection.benchmarks import BENCHMARKS
from curator_bench.errors import BenchError

if TYPE_CHECKING:
    from curator_bench.values import OpenFinding

_FOUND = pytest.StashKey[tuple["OpenFinding", ...]]()


def open_findings_of(config: pytest.Config) -> tuple[OpenFinding, ...]:
    """Return the findings, the newest first; none without --benchmark, or if no gate was asked."""
    if _FOUND not in config.stash:
        config.stash[_FOUND] = _found(config) if config.stash[BENCHMARKS].settings.benchmark else ()
    return config.stash[_FOUND]


def _found(config: pytest.Config) -> tuple[OpenFinding, ...]:
    """Read the findings. A database that cannot be read has been reported by recording."""
    from curator_bench.store.gate_history import gated_groups
    from curator_bench.store.opening import to_read_if_there

    settings = config.stash[BENCHMARKS].settings
    try:
        with to_read_if_there(settings.database) as opened:
            if opened is None:
                return ()
            with opened.reading() as connection:
                if not (asked := gated_groups(connection, settings.invocation)):
                    return ()
                from curator_bench.causes.open_findings import open_findings
                from curator_bench.provenance.packages import commit_lines

                log = functools.partial(commit_lines, config.rootpath)
                return tuple(open_findings(connection, asked, config.rootpath, log))
    except BenchError:
        return ()
