"""Finds missing scripts before anything runs."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from functools import cache

import pytest

from curator_bench.collection.benchmarks import BENCHMARKS
from curator_bench.collection.items import MatrixModule, entry_of
from curator_bench.errors import MatrixError, Mistake
from curator_bench.matrix.command import find_script
from curator_bench.values import Entry


def check_scripts(config: pytest.Config, items: Iterable[pytest.Item]) -> None:
    """Raise MatrixError for selected entries without a script.

    A path with placeholders is left to the run. An absolute path may exist only on the machines of a fleet.
    """
    fleet = config.stash[BENCHMARKS].settings.fleet
    is_elsewhere = fleet is not None and fleet.address != "local"
    entries = (entry_of(item) for item in items if isinstance(item.parent, MatrixModule))
    by_name = {entry.name: entry for entry in entries if entry is not None}
    mistakes = [*_mistakes(entry for entry in by_name.values() if not (is_elsewhere and os.path.isabs(entry.script)))]
    if mistakes:
        raise MatrixError(mistakes)


def _mistakes(entries: Iterable[Entry]) -> Iterator[Mistake]:
    find = cache(find_script)
    for entry in entries:
        if entry.problems or not {"{", "$"}.isdisjoint(entry.script):
            continue
        _, problems = find(entry.script, entry.script_base_dir, entry.file.directory)
        yield from (Mistake(entry.place, f"entries[{entry.name}].script", problem) for problem in problems)
