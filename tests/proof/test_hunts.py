"""Proof of the hunt: of 32 commits the slower one is named 19 times of 20; where none is slower, none is named."""

from __future__ import annotations

import json
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from scratch_repository import ScratchRepository, environment, make_repository

COMMAND = Path(sys.executable).with_name("curator-bench")
_AT_ONCE = 2


def hunt(repository: ScratchRepository) -> tuple[int, dict[str, Any]]:
    """As a user would; ten runs at a time, since a pytest takes longer to start than such a run."""
    what = ["--good", "c1", "--bad", "c32", "--entry", "work", "--metric", "work_time_s", "--runs", "10", "--json"]
    before = repository.stands()
    done = subprocess.run(
        [COMMAND, "bisect", *what],
        cwd=repository.folder,
        env=environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    assert repository.stands() == before
    assert done.returncode in (0, 3, 4), done.stderr
    return done.returncode, json.loads(done.stdout)


@pytest.fixture
def tries(full: bool) -> int:
    return 20 if full else 1


def test_the_slower_commit_is_named(tries: int, tmp_path: Path) -> None:
    def is_named(seed: int) -> bool:
        repository = make_repository(tmp_path / str(seed), seed=seed, slower_at=19, by=0.08)
        _, found = hunt(repository)
        print(
            seed,
            found["culprit"] == repository.git("rev-parse", "c19"),
            found["change"],
            sum(len(one["values"]) for one in found["tried"]),
            flush=True,
        )
        return bool(found["culprit"] == repository.git("rev-parse", "c19"))

    with ThreadPoolExecutor(_AT_ONCE) as pool:
        named = sum(pool.map(is_named, range(tries)))
    assert named >= 0.95 * tries


def test_where_nothing_changed_nothing_is_named(tries: int, tmp_path: Path) -> None:
    def is_seen(seed: int) -> bool:
        code, found = hunt(make_repository(tmp_path / str(seed), seed=1000 + seed, slower_at=None))
        print(seed, code, found["difference"], found["change"], flush=True)
        return code == 3 and found["culprit"] is None and found["difference"] in ("no change", "inconclusive")

    with ThreadPoolExecutor(_AT_ONCE) as pool:
        assert sum(pool.map(is_seen, range(tries))) == tries
