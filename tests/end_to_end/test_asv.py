"""Benchmarks of asv run as entries, unchanged, by asv's own library."""

from __future__ import annotations

import sqlite3
from typing import Any

import pytest
from end_to_end.conftest import Project

SUITE = """
class Sort:
    params = [[10, 2000], ["quick", "merge"]]
    param_names = ["n", "how"]
    rounds = 2
    repeat = 3
    number = 5
    warmup_time = 0

    def setup(self, n, how):
        if how == "merge" and n == 10:
            raise NotImplementedError("too few to merge")
        self.data = list(range(n, 0, -1))

    def teardown(self, n, how):
        print("torn down")

    def time_sort(self, n, how):
        sorted(self.data)


class Cached:
    def setup_cache(self):
        open("beside.txt", "w").write("made")
        return {"size": 7}

    def track_size(self, cache):
        assert open("beside.txt").read() == "made"
        return cache["size"]

    track_size.unit = "rows"

    def peakmem_list(self, cache):
        return [0] * 10


def timeraw_import():
    return "import json"


timeraw_import.repeat = 2
timeraw_import.number = 1
timeraw_import.rounds = 1


def time_fails():
    raise ValueError("as I say")
"""


@pytest.mark.slow
def test_a_suite_runs_as_it_is(project: Project) -> None:
    (project.folder / "benchmarks").mkdir()
    project.write("benchmarks/__init__.py", "")
    project.write("benchmarks/sorts.py", SUITE)
    project.write("matrix.yaml", "entries: [{asv: benchmarks}]")
    outcome = project.run("--benchmark")
    assert outcome.code == 1, outcome.output

    def ask(query: str) -> list[Any]:
        with sqlite3.connect(project.folder / "benchmark.db") as database:
            return database.execute(query).fetchall()

    rows = {name: (verdict, error) for name, verdict, error in ask("select name, verdict, error from test_run")}
    assert {name: verdict for name, (verdict, _) in rows.items()} == {
        "sorts.Cached.peakmem_list": "passed",
        "sorts.Cached.track_size": "passed",
        "sorts.Sort.time_sort[10-quick]": "passed",
        "sorts.Sort.time_sort[10-merge]": "skipped",
        "sorts.Sort.time_sort[2000-quick]": "passed",
        "sorts.Sort.time_sort[2000-merge]": "passed",
        "sorts.time_fails": "crashed",
        "sorts.timeraw_import": "passed",
    }
    assert "too few to merge" in rows["sorts.Sort.time_sort[10-merge]"][1]
    assert "ValueError: as I say" in outcome.output
    found = {
        (run, metric): value
        for run, metric, value in ask("select r.name, m.name, value from metric m join test_run r on r.id = run")
    }
    timed = "sorts.Sort.time_sort[2000-quick]"
    assert found[timed, "time_s_n"] == 6
    assert 0 < found[timed, "time_s_min"] <= found[timed, "time_s"] <= found[timed, "time_s_max"] < 1
    assert found["sorts.timeraw_import", "time_s_n"] == 2
    assert found["sorts.Cached.track_size", "value"] == 7
    assert found["sorts.Cached.peakmem_list", "peakmem_bytes"] > 1_000_000
    samples = ask(
        f"select value from sample s join test_run r on r.id = run where r.name = {timed!r} and metric = 'time_s'"
    )
    assert len(samples) == 6
    assert min(samples)[0] == found[timed, "time_s_min"]
