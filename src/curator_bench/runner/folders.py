"""The folders of a session: its own, and one for each benchmark written in Python."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest

from curator_bench.collection import BENCHMARKS, entry_of
from curator_bench.matrix.axes import safe_folders


@dataclass(frozen=True, slots=True)
class BenchSession:
    """The session this invocation runs in."""

    name: str
    directory: Path


def bench_session(config: pytest.Config) -> BenchSession:
    directory = config.stash[BENCHMARKS].session_dir
    return BenchSession(directory.name, directory)


def item_dir(item: pytest.Item) -> Path:
    """The folder of an item: its entry's, or one named after its node id."""
    session = bench_session(item.config).directory
    entry = entry_of(item)
    if entry is not None and entry.folder:
        return session.joinpath(*entry.folder)
    return session / safe_folders([item.nodeid])[item.nodeid]
