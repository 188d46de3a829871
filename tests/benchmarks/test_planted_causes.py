"""Causes planted into a history of three machines are found as they were planted. In full: tests/proof."""

from __future__ import annotations

import json
from pathlib import Path

import warm
from planted_causes import Score, Size, make_history, score

from curator_bench.store.database import database_url, open_for_writing


def test_each_planted_cause_is_one_finding_and_there_are_no_others(tmp_path: Path) -> None:
    file = tmp_path / "history.db"
    with open_for_writing(database_url(str(file))) as database:
        causes = make_history(database, Size(entries=60, runs=60, causes=5, commits=180), seed=3)
    said = warm.run("curator-bench", "regressions", "--db", file, "--json", cwd=tmp_path)
    assert score(causes, json.loads(said.stdout)) == Score(found=5, split=0, merged=0, false=0, off=0)
