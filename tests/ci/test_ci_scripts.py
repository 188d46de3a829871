"""The scripts a CI system calls, run as it runs them; nothing of what concurrent jobs add is lost."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import warm
from scratch_repository import make_repository

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
def test_a_short_suite_has_each_value_of_each_axis(tmp_path: Path, suite: str) -> None:
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


def values_of(suite: str, *options: str) -> list[set[tuple[str, int, str]]]:
    """The values of each entry: of which benchmark, and at which place in its name."""
    done = warm.run("pytest", f"benchmarks/{suite}", "--collect-only", "-q", *options, cwd=ROOT)
    entries = re.findall(r"::(\w+)\[(.+)\]$", done.stdout, re.MULTILINE)
    return [{(name, *one) for one in enumerate(values.split("-"))} for name, values in entries]


def database(folder: Path, name: str, runs: int = 1) -> Path:
    """With runs of a benchmark of this name."""
    lines = [
        {"name": name, "path": "m.yaml", "metric": "time_s", "value": 1.0, "time": f"2026-01-{day:02}"}
        for day in range(1, runs + 1)
    ]
    folder.joinpath(f"{name}.jsonl").write_text("\n".join(map(json.dumps, lines)))
    made = folder / f"{name}.db"
    done = warm.run("curator-bench", "import", f"{name}.jsonl", "--db", made, cwd=folder)
    assert done.returncode == 0, done.stderr
    return made


def recorded(file: Path) -> set[str]:
    done = warm.run("curator-bench", "history", "--json", "--db", file, cwd=file.parent)
    assert done.returncode == 0, done.stderr
    return {entry["name"] for entry in json.loads(done.stdout)["entries"]}


def files_of(folder: Path) -> set[Path]:
    return {path.relative_to(folder) for path in folder.rglob("*") if path.is_file()}


def combined_at_once(record: str, folder: Path, jobs: int, **variables: str) -> set[str]:
    """As many jobs at the same moment, each with a database of its own; what the record then holds."""
    databases = [database(folder, f"job{number}") for number in range(jobs)]
    with ThreadPoolExecutor(jobs) as pool:
        ended = list(
            pool.map(lambda one: script("combine_databases.sh", record, one, cwd=folder, **variables), databases)
        )
    assert [one.returncode for one in ended] == [0] * jobs, [one.stderr for one in ended]
    fetched = script("combine_databases.sh", "--fetch", record, "fetched.db", cwd=folder, **variables)
    assert fetched.returncode == 0, fetched.stderr
    return recorded(folder / "fetched.db")


def test_two_jobs_at_once_lose_nothing_on_a_disk(tmp_path: Path) -> None:
    assert combined_at_once(str(tmp_path / "shared" / "record.db"), tmp_path, 2) == {"job0", "job1"}


@pytest.mark.slow
def test_two_jobs_at_once_lose_nothing_on_s3(
    tmp_path: Path, s3: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    boto3 = pytest.importorskip("boto3")
    for name, value in s3.items():
        monkeypatch.setenv(name, value)
    boto3.client("s3").create_bucket(Bucket="records")
    assert combined_at_once("s3://records/all/record.db", tmp_path, 2, **s3) == {"job0", "job1"}


def test_two_jobs_at_once_lose_nothing_where_nothing_can_be_locked(tmp_path: Path) -> None:
    pytest.importorskip("fsspec")
    record = f"local://{tmp_path / 'shared' / 'record.db'}"
    assert combined_at_once(record, tmp_path, 2) == {"job0", "job1"}


def test_what_was_fetched_before_another_job_stored_is_not_stored(tmp_path: Path) -> None:
    record = tmp_path / "record.db"
    program = [sys.executable, str(ROOT / "ci" / "shared_record.py")]
    first, second = database(tmp_path, "first"), database(tmp_path, "second")
    for file in (first, second):
        version = tmp_path / f"{file.name}.version"
        version.write_text("nothing")
    assert subprocess.run([*program, "store", str(record), str(first)], check=False).returncode == 0
    assert subprocess.run([*program, "store", str(record), str(second)], check=False).returncode == 75
    assert recorded(record) == {"first"}


def test_an_export_is_added_like_a_database(tmp_path: Path) -> None:
    made = database(tmp_path, "job")
    exported = ("export", "--db", made, "--format", "jsonl", "--out", "out.jsonl")
    warm.run("curator-bench", *exported, cwd=tmp_path).check_returncode()
    assert script("combine_databases.sh", "record.db", "out.jsonl", cwd=tmp_path).returncode == 0
    assert recorded(tmp_path / "record.db") == {"job"}


@pytest.mark.slow
def test_a_night_is_recorded_gated_and_published(tmp_path: Path) -> None:
    project = make_repository(tmp_path / "project", seed=5, slower_at=None, commits=1).folder
    variables = {"RECORD": str(tmp_path / "record.db"), "SITE": str(tmp_path / "site"), "CONFIRM": "1"}
    night = script("nightly.sh", "benchmarks", "--bench-runs", "12", cwd=project, **variables)
    assert "work_time_s is worse" not in night.stdout
    # The time of the script is real: on a busy machine it may become worse while the night lasts.
    is_busy = "exec_time_s is worse" in night.stdout
    assert night.returncode == (1 if is_busy else 0), night.stdout + night.stderr
    assert recorded(tmp_path / "record.db") == {"work"}
    assert (tmp_path / "site" / "index.html").exists()
    there = tmp_path / "there"
    published = script("publish_dashboard.sh", tmp_path / "record.db", f"local://{there}", cwd=tmp_path)
    assert published.returncode == 0, published.stderr
    assert files_of(there) == files_of(tmp_path / "site")
    slower = project / "package.py"
    slower.write_text(slower.read_text().replace("0.05", "0.09"))
    night = script("nightly.sh", "benchmarks", cwd=project, **variables)
    assert night.returncode == 1, night.stdout + night.stderr
    assert "work_time_s is worse than before" in night.stdout


def test_a_night_that_ran_nothing_leaves_no_trace_in_the_record(tmp_path: Path) -> None:
    project = make_repository(tmp_path / "project", seed=5, slower_at=None, commits=1).folder
    night = script("nightly.sh", "benchmarks", "-k", "nosuch", cwd=project, RECORD=str(tmp_path / "record.db"))
    assert night.returncode == 5, night.stdout + night.stderr
    assert not (tmp_path / "record.db").exists()
    told = script("nightly.sh", "--help", cwd=project)
    assert (told.returncode, told.stdout.startswith("One night: "), "CONFIRM" in told.stdout) == (0, True, True)


def test_what_is_no_record_is_told_in_a_line(tmp_path: Path) -> None:
    (tmp_path / "record.db").write_text("no database")
    done = script("combine_databases.sh", "record.db", database(tmp_path, "job"), cwd=tmp_path)
    assert (done.returncode, done.stderr) == (1, "the record cannot be opened: file is not a database\n")
    done = script("combine_databases.sh", "s4://bucket/record.db", "job.db", cwd=tmp_path)
    assert (done.returncode, done.stderr.count("\n")) == (1, 1)
    assert "fetch s4://bucket/record.db: Protocol not known: s4" in done.stderr


def test_a_dashboard_without_a_record_says_so(tmp_path: Path) -> None:
    done = script("publish_dashboard.sh", "none.db", "site", cwd=tmp_path)
    assert (done.returncode, "there is no record at none.db yet" in done.stderr) == (1, True)


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
