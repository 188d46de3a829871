"""What the folder of a session tells while it runs: its progress, its entries, their memory and GPUs."""

from __future__ import annotations

import json
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

from curator_bench.measure.gpu import GpuReading
from curator_bench.report.progress import Planned, Progress
from curator_bench.report.progress_output import document, head, snapshot_in
from curator_bench.report.server.live_sessions import GPU_COLUMNS, LiveSessions


def test_progress_json_is_read_back_as_it_was(tmp_path: Path) -> None:
    progress = Progress({"m.yaml::a": Planned(tmp_path, 1.0), "m.yaml::b": Planned(tmp_path)})
    progress.expect(["m.yaml::a", "m.yaml::b"])
    progress.begin("m.yaml::a", "node7", ["3"])
    found = snapshot_in(json.loads(json.dumps(document(progress.now()))))
    assert found is not None
    assert head(found) == "0 of 2 done, 1 running"
    assert (found.running[0].name, found.running[0].host, found.running[0].gpus) == ("a", "node7", ("3",))


@pytest.mark.parametrize(
    "change",
    [{"running": 1}, {"running": [1]}, {"left_s": "Infinity"}, {"elapsed_s": "NaN"}, {"counts": []}, {"waiting": "x"}],
)
def test_a_progress_json_of_others_is_none(change: dict[str, Any]) -> None:
    whole = document(Progress({}).now())
    assert snapshot_in(whole) is not None
    assert snapshot_in({**whole, **change}) is None
    assert snapshot_in({}) is None


@pytest.fixture
def entry(tmp_path: Path) -> Path:
    folder = tmp_path / "results" / "tonight" / "train" / "big"
    (folder / "logs").mkdir(parents=True)
    (folder / "logs" / "stdouterr.log").write_text("at work\n")
    (folder / "claim.json").write_text("{}")
    status = {"name": "train[big]", "host": "node7", "attempt": 2, "state": "running", "elapsed_s": 7, "last_line": "x"}
    (folder / "status.json").write_text(json.dumps(status))
    return folder


def live(results: Path) -> LiveSessions:
    return LiveSessions(lambda folder: (folder / "alive").exists(), lambda: [results])


def test_memory_and_gpus_are_the_newest_readings(tmp_path: Path, entry: Path) -> None:
    names = [field.name for field in fields(GpuReading)]
    assert tuple(names[: len(GPU_COLUMNS)]) == GPU_COLUMNS
    rows = ["t,0,u,10,1073741824,0,,,", "t,1,u,,,0,,,", "t,0,u,55,2147483648,0,,,", "t,1,u,,1048576,0,,,"]
    (entry / "gpustats.csv").write_text("\n".join([",".join(names), *rows]) + "\n")
    (entry / "memory.csv").write_text("time,memory_bytes\nt,1024\nt,1073741824\n")
    (entry.parents[1] / "alive").touch()
    (found,) = live(tmp_path / "results").now()
    (one,) = found.entries
    assert (found.name, found.state, one.name, one.state, one.path) == (
        "tonight",
        "running",
        "train[big]",
        "running",
        "train/big",
    )
    assert (one.host, one.attempt, one.elapsed, one.memory) == ("node7", 2, "7.00 s", "1.00 GiB")
    assert one.gpus == ("GPU 0: 55 %, 2.00 GiB", "GPU 1: 1.00 MiB")


@pytest.mark.parametrize("text", ["", "\0\n", "a,b\n", "t,x,u,1,2,3\n", '"', "t\n" * 5000, "t," + "9" * 900 + "\n"])
def test_readings_of_others_are_none(tmp_path: Path, entry: Path, text: str) -> None:
    (entry / "gpustats.csv").write_text(text)
    (entry / "memory.csv").write_text(text)
    (entry.parents[1] / "alive").touch()
    (found,) = live(tmp_path / "results").now()
    assert (found.entries[0].gpus, found.entries[0].memory) == ((), "")


def test_sessions_that_do_not_run_are_not_shown(tmp_path: Path, entry: Path) -> None:
    sessions = live(tmp_path / "results")
    assert sessions.now() == ()
    assert live(tmp_path / "missing").now() == ()
    (tmp_path / "results" / "link").symlink_to(entry.parents[1])
    (entry.parents[1] / "alive").touch()
    assert [one.name for one in live(tmp_path / "results").now()] == ["tonight"]


def test_a_look_that_takes_long_is_not_taken_often(tmp_path: Path, entry: Path) -> None:
    now = [100.0]

    def looking_takes_2_s(folder: Path) -> bool:
        now[0] += 2
        return True

    sessions = LiveSessions(looking_takes_2_s, lambda: [tmp_path / "results"], lambda: now[0])
    sessions.now()
    looked_at = now[0]
    for _ in range(19):
        now[0] += 1
        sessions.now()
    assert now[0] == looked_at + 19
    now[0] += 1
    sessions.now()
    assert now[0] == looked_at + 22
