"""`curator-bench calibrate` proposes limits from recorded runs, and writes them into the matrix."""

from __future__ import annotations

import json
import random
import shutil
import subprocess
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import warm

from curator_bench.calibration.proposals import Limit, Proposal, State, rounded
from curator_bench.cli.calibrate import by_hand
from curator_bench.store.database import database_url, open_for_writing
from curator_bench.store.recorder import Recorder
from curator_bench.store.records import InvocationRecord, RunEnd, RunStart, SessionRecord
from curator_bench.values import Verdict

MATRIX = """\
ray: false
entries:
  - name: sort          # the first
    script: s.py
    timeout_s: 20
    requirements: &both
      - {metric: time_s,   max_value: 60}     # generous
      - {metric: rows_per_s, min_value: 990}  # tight
  - {name: slower, script: s.py, timeout_s: 25, requirements: *both}
  - name: axes
    script: s.py
    matrix: {n: [1, 2]}
    requirements:
      - {metric: time_s, max_value: "${LIMIT:-20}"}
      - {metric: words, min_value: 1000}
      - {metric: late_s, max_value: 1}
      - {metric: new_s, max_value: 1}
"""
NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
ENTRIES = {"sort": 1.0, "slower": 1.2, "axes[1]": 1.0, "axes[2]": 1.1}


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("project")
    rng, lines = random.Random(1), []
    for name, factor in ENTRIES.items():
        for number in range(60):
            about = {"time_s": 10 * factor, "rows_per_s": 1000, "exec_time_s": 11, "late_s": 2}
            metrics = {metric: value * rng.lognormvariate(0, 0.02) for metric, value in about.items()} | {"words": 1000}
            metrics |= {"new_s": 0.5} if number > 50 else {}
            said = {
                "name": name,
                "path": "matrix.yaml",
                "time": f"2026-01-{number // 2 + 1:02d}T{number % 2:02d}:00:00",
            }
            lines += [json.dumps({**said, "metric": metric, "value": value}) for metric, value in metrics.items()]
    (folder / "runs.jsonl").write_text("\n".join(lines))
    (folder / "matrix.yaml").write_text(MATRIX)
    assert warm.run("curator-bench", "import", "runs.jsonl", "--db", "benchmark.db", cwd=folder).returncode == 0
    return folder


def calibrate(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    done = warm.run("curator-bench", "calibrate", "matrix.yaml", "--db", "benchmark.db", *words, cwd=folder)
    assert done.returncode == 0, done.stderr
    return done


def documents(folder: Path, *words: str) -> Mapping[tuple[str, ...], Any]:
    found = json.loads(calibrate(folder, "--json", *words).stdout)["limits"]
    return {(*one["entries"], one["metric"] or "", one["key"]): one for one in found}


def test_limits_are_judged_and_proposed(project: Path) -> None:
    found = documents(project, "--metric", "exec_time_s")
    assert {key: one["state"] for key, one in found.items()} == {
        ("sort", "slower", "time_s", "max_value"): "loose",
        ("sort", "slower", "rows_per_s", "min_value"): "tight",
        ("sort", "exec_time_s", "max_value"): "missing",
        ("slower", "exec_time_s", "max_value"): "missing",
        ("axes", "exec_time_s", "max_value"): "missing",
        ("sort", "", "timeout_s"): "fits",
        ("slower", "", "timeout_s"): "fits",
        ("axes", "time_s", "max_value"): "loose",
        ("axes", "words", "min_value"): "exact",
        ("axes", "late_s", "max_value"): "exceeded",
        ("axes", "new_s", "max_value"): "too few runs",
        ("axes", "", "timeout_s"): "loose",
    }
    shared = found["sort", "slower", "time_s", "max_value"]
    assert shared["proposed"] > max(one["limit"] for one in shared["measured"]) - 1e-9
    assert 12 < shared["proposed"] < 16
    assert shared["catches"] > 3 > 0.6 > shared["proposed_catches"]
    tight = found["sort", "slower", "rows_per_s", "min_value"]
    assert tight["noise_fails"] > 0.1
    assert tight["proposed"] < 930


def test_what_is_written_is_read_again_and_fits(project: Path, tmp_path: Path) -> None:
    for name in ("matrix.yaml", "benchmark.db"):
        (tmp_path / name).write_bytes((project / name).read_bytes())
    (tmp_path / "matrix.yaml").chmod(0o640)
    told = calibrate(tmp_path, "--write").stdout
    text = (tmp_path / "matrix.yaml").read_text()
    assert [line.partition(",")[0] for line in text.splitlines() if "generous" in line] == ["      - {metric: time_s"]
    assert "matrix.yaml:7: sort, slower time_s max_value: 60 → " in told
    assert "axes: write into the place its limit comes from" in told
    assert (tmp_path / "matrix.yaml").stat().st_mode & 0o777 == 0o640
    again = {key: one["state"] for key, one in documents(tmp_path).items()}
    assert (again["sort", "slower", "time_s", "max_value"], again["axes", "", "timeout_s"]) == ("fits", "fits")
    assert again["axes", "time_s", "max_value"] == "loose"
    calibrate(tmp_path, "--write")
    assert (tmp_path / "matrix.yaml").read_text() == text
    told = calibrate(tmp_path, "--write", "--metric", "exec_time_s").stdout
    assert "sort: write into its requirements: - {metric: exec_time_s, max_value: " in told  # it shares them
    assert documents(tmp_path)["axes", "exec_time_s", "max_value"]["state"] == "fits"


def test_nothing_is_proposed_while_an_entry_that_shares_the_limit_has_too_few_runs(
    project: Path, tmp_path: Path
) -> None:
    shutil.copy(project / "benchmark.db", tmp_path)
    text = MATRIX.replace("{n: [1, 2]}", "{n: [1, 2, 3]}").replace('"${LIMIT:-20}"', "20")
    (tmp_path / "matrix.yaml").write_text(text)
    told = calibrate(tmp_path, "--write").stdout
    assert "axes time_s max_value: nothing is proposed until all have enough runs: axes[3] (30 more needed)" in told
    assert "max_value: 20" in (tmp_path / "matrix.yaml").read_text()
    with open_for_writing(database_url(str(tmp_path / "benchmark.db"))) as database:
        recorder = Recorder(database, SessionRecord("s", str(tmp_path)), InvocationRecord("i", NOON))
        uid = recorder.start_run(RunStart("axes[3]", "matrix.yaml", NOON))
        recorder.finish_run(uid, RunEnd(Verdict.SKIPPED, NOON))
    assert documents(tmp_path)["axes", "time_s", "max_value"]["state"] == "loose"


def test_what_is_written_by_hand_is_a_line_of_a_matrix() -> None:
    def line(metric: str, key: str) -> str:
        limit = Limit("m.yaml", ("a.time_x",), metric, key, 60, None)
        (said,) = by_hand([Proposal(limit, State.LOOSE, 10, "10")])
        return said.rpartition("asv): ")[2]

    assert line("", "timeout_s") == "timeout_s: 10"
    assert line("time_s", "max_value") == "- {metric: time_s, max_value: 10}"


def test_a_limit_has_few_digits_and_is_never_tighter() -> None:
    assert rounded(61.37, 50.0, is_upper=True) == "62"
    assert rounded(103.2, 100.0, is_upper=True) == "103.2"
    assert rounded(887.3, 1000.0, is_upper=False) == "880"
    assert rounded(0.000012345, 0.00001, is_upper=True) == "0.0000124"
    assert rounded(-5.5, -3.0, is_upper=False) == "-5.5"
    assert rounded(2_119_489.0, 2_119_489.0, is_upper=False) == "2119489"


def test_only_the_runs_that_are_asked_for_count(project: Path) -> None:
    states = {one["state"] for one in documents(project, "--since", "2026-01-25").values()}
    assert states == {"too few runs"}
    done = warm.run(
        "curator-bench", "calibrate", "matrix.yaml", "--db", "benchmark.db", "--branch", "other", cwd=project
    )
    assert (done.returncode, "Traceback" in done.stderr) == (1, False)
