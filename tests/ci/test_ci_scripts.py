"""The scripts a CI system calls, run as it runs them. tests/sharing tests the commands that some of them call."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest
import warm
from scratch_repository import make_repository
from sharing.shared_records import database, recorded

ROOT = Path(__file__).parents[2]


def script(name: str, *words: str | Path, cwd: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    kept = {
        key: value for key, value in os.environ.items() if not key.startswith(("PYTEST_", "GITHUB_", "CURATOR_BENCH_"))
    }
    return subprocess.run(
        [ROOT / "ci" / name, *map(str, words)],
        cwd=cwd,
        env={**kept, "BIN": str(warm.programs()), **variables},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


def test_a_folder_that_is_no_checkout_of_nemo_curator_is_named_at_once(tmp_path: Path) -> None:
    outcome = script("test_curator.sh", "no-python", tmp_path / "my Curator", cwd=tmp_path)
    assert outcome.returncode == 2
    assert f"{tmp_path}/my Curator is no checkout of NeMo Curator" in outcome.stderr


def test_the_checkout_of_the_environment_is_tried_without_an_argument(tmp_path: Path) -> None:
    """Its path may have blanks."""
    words = ["make", "--no-print-directory", "--dry-run", "test-curator"]
    env = {**os.environ, "CURATOR_REPO": str(tmp_path / "my Curator")}
    outcome = subprocess.run(words, cwd=ROOT, env=env, capture_output=True, text=True, timeout=60, check=True)
    assert outcome.stdout.splitlines()[-1].endswith(f'/python "{tmp_path}/my Curator"')
    del env["CURATOR_REPO"]
    outcome = subprocess.run(words, cwd=ROOT, env=env, capture_output=True, text=True, timeout=60, check=True)
    assert outcome.stdout.splitlines()[-1].split()[-1].endswith("/python")


WRITES_DOWN = '#!/bin/sh\nfor word; do echo "$word"; done >>"$WORDS"\n'


@pytest.mark.parametrize("suite", ["attention", "curator"])
def test_a_short_suite_has_each_benchmark_and_each_value_of_each_axis(tmp_path: Path, suite: str) -> None:
    (tmp_path / "python").write_text(WRITES_DOWN)
    (tmp_path / "python").chmod(0o755)
    given = tmp_path if suite == "attention" else tmp_path / "python"
    script(f"test_{suite}.sh", given, cwd=tmp_path, SUITES="short", WORDS=str(tmp_path / "words"))
    words = (tmp_path / "words").read_text().splitlines()
    own = words.index(f"benchmarks/{suite}")
    selected = words[words.index("-k", own) + 1]
    short, whole = values_of(suite, "-k", selected), values_of(suite)
    assert len(short) < len(whole)
    assert set().union(*short) == set().union(*whole)


def values_of(suite: str, *options: str) -> list[set[str]]:
    """The name of the benchmark and the values of the axes, of each entry."""
    done = warm.run("pytest", f"benchmarks/{suite}", "--collect-only", "-q", *options, cwd=ROOT)
    entries = re.findall(r"::(\w+)\[(.+)\]$", done.stdout, re.MULTILINE)
    return [{name, *values.split("-")} for name, values in entries]


def test_the_scripts_for_the_record_call_the_commands(tmp_path: Path) -> None:
    added = script("combine_databases.sh", "record.db", database(tmp_path, "job"), cwd=tmp_path)
    assert added.returncode == 0, added.stderr
    got = script("combine_databases.sh", "--fetch", "record.db", "got.db", cwd=tmp_path)
    assert got.returncode == 0, got.stderr
    assert recorded(tmp_path / "got.db") == {"job"}
    published = script("publish_dashboard.sh", "record.db", "site", "--title", "Of the lab", cwd=tmp_path)
    assert published.returncode == 0, published.stderr
    assert "Of the lab" in (tmp_path / "site" / "index.html").read_text()
    for name in ("combine_databases.sh", "publish_dashboard.sh"):
        done = script(name, cwd=tmp_path)
        assert (done.returncode, done.stderr.startswith("Usage: ")) == (2, True)


def test_the_script_of_a_night_calls_the_command(tmp_path: Path) -> None:
    project = make_repository(tmp_path / "project", seed=5, slower_at=None, commits=1).folder
    night = script("nightly.sh", "benchmarks", "-k", "nosuch", cwd=project, RECORD=str(tmp_path / "record.db"))
    assert night.returncode == 5, night.stdout + night.stderr
    told = script("nightly.sh", "--help", cwd=project)
    assert (told.returncode, "CONFIRM" in told.stdout) == (0, True)


@pytest.mark.slow
def test_a_hunt_of_ci_leaves_the_checkout_alone_and_knows_branches_as_they_are_now(tmp_path: Path) -> None:
    repository = make_repository(tmp_path / "project", seed=6, slower_at=2, by=1.0, commits=3, ini=False)
    noise = tmp_path / "work" / "clone" / "noise"
    repository.git("branch", "moving", "c1")
    subprocess.run(["git", "clone", "--quiet", repository.folder, noise.parent], check=True)
    repository.git("branch", "--force", "moving", "c3")
    shutil.copytree(repository.folder / "noise", noise)
    before = repository.stands()
    summary = tmp_path / "summary.md"
    done = script(
        "bisect.sh",
        *(repository.folder, "c1", "moving", "work", "work_time_s", "--runs", "5"),
        cwd=tmp_path,
        WORK=str(tmp_path / "work"),
        GITHUB_STEP_SUMMARY=str(summary),
    )
    assert done.returncode == 0, done.stderr
    assert repository.git("rev-parse", "c2") in done.stdout
    assert repository.git("rev-parse", "c2") in summary.read_text()
    assert repository.stands() == before
