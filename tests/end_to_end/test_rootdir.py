"""A benchmark has one name in the database, and its ini file is read, however options are written."""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
from contextlib import closing
from pathlib import Path

import pytest
import warm
from end_to_end.conftest import Project
from other_user import needs_a_second_user, run, shared_folder

from curator_bench.options.rootdir import database_from
from curator_bench.provenance.git import describe


def paths(database: Path) -> list[str]:
    with closing(sqlite3.connect(database)) as opened:
        return [path for (path,) in opened.execute("SELECT path FROM test_run ORDER BY id")]


@pytest.fixture
def elsewhere(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("elsewhere")


def test_without_an_ini_file_the_values_of_options_do_not_rename_a_benchmark(project: Project, elsewhere: Path) -> None:
    (project.folder / "pytest.ini").unlink()
    project.matrix(project.entry("a"))
    database = elsewhere / "runs.db"
    words = ["--benchmark", "--benchmark-db", str(database), "--bench-results", str(elsewhere)]
    for more in ([], [], ["-n", "1"]):  # from the second on the database is there, too
        assert project.run(*words, *more).code == 0
    assert paths(database) == ["matrix.yaml"] * 3


def test_without_an_ini_file_the_database_stays_in_the_project(project: Project, elsewhere: Path) -> None:
    (project.folder / "pytest.ini").unlink()
    project.matrix(project.entry("a"))
    assert project.run("--benchmark", "--bench-results", str(elsewhere)).code == 0
    assert paths(project.folder / "benchmark.db") == ["matrix.yaml"]


def test_a_checkout_named_after_a_space_moves_nothing(project: Project, elsewhere: Path) -> None:
    """It has an ini file of its own, as NeMo Curator's has."""
    elsewhere.joinpath("pyproject.toml").write_text("[tool.pytest.ini_options]\n")
    project.matrix(project.entry("a"))
    for _ in range(2):
        assert project.run("--benchmark", "--bench-curator-repo", str(elsewhere)).code == 0
    assert paths(project.folder / "benchmark.db") == ["matrix.yaml"] * 2
    assert {place.name for place in elsewhere.iterdir()} == {"pyproject.toml"}


def test_an_ini_file_that_pytest_overlooks_is_a_mistake_that_says_how_to_write_it(
    project: Project, elsewhere: Path
) -> None:
    project.matrix(project.entry("a"))
    command = [word for word in project.command() if word != "matrix.yaml"]
    project.command = lambda *options: [*command, *options]  # type: ignore[method-assign]  # pytest finds the matrix itself
    refused = project.run("--bench-results", str(elsewhere))
    assert refused.code == 4
    assert refused.has(f"Write option and value as one word: --bench-results={elsewhere}")
    assert refused.has(f"pytest has not read {project.folder / 'pytest.ini'}")
    assert project.run(f"--bench-results={elsewhere}").code == 0


def commands_say(folder: Path, *words: str) -> str:
    """What `curator-bench` prints in a folder."""
    done = warm.run("curator-bench", *words, cwd=folder)
    return done.stdout + done.stderr


@pytest.mark.parametrize(
    ("marker", "text", "database"),
    [
        ("pytest.ini", "[pytest]\n", "benchmark.db"),
        ("pytest.ini", "[pytest]\nbenchmark_db = history/runs.db\n", "history/runs.db"),
        ("pyproject.toml", "[tool.pytest]\nbenchmark_db = 'runs.db'\n", "runs.db"),
        ("tox.ini", "[pytest]\nbenchmark_db = runs.db\n", "runs.db"),
        ("setup.py", "", "benchmark.db"),
        (".git/HEAD", "", "benchmark.db"),
    ],
    ids=["ini", "ini key", "pyproject", "tox", "setup.py", "git"],
)
def test_pytest_and_the_commands_find_the_same_database_from_any_folder(
    tmp_path: Path, marker: str, text: str, database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("CURATOR_BENCH_DB", "DB_NAME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    top, below = tmp_path / "project", tmp_path / "project" / "benchmarks" / "sorting"
    below.mkdir(parents=True)
    (top / "history").mkdir()
    file = top / marker
    file.parent.mkdir(exist_ok=True)
    file.write_text(text)
    (below / "test_it.py").write_text("def test_it(benchmark_time):\n    with benchmark_time: ...\n")
    said = warm.run("pytest", "-q", "--benchmark", "-p", "no:cacheprovider", cwd=below).stdout
    assert f"Database: {top / database}" in said.splitlines()
    for folder in (top, below.parent, below):
        told = commands_say(folder, "history")
        assert f"Database: {top / database}" in told.splitlines()
        assert "test_it" in told
    assert paths(top / database) == ["benchmarks/sorting/test_it.py"]


def test_the_database_that_addopts_name_is_found_by_the_commands(tmp_path: Path) -> None:
    (tmp_path / "pytest.ini").write_text("[pytest]\naddopts = --benchmark --benchmark-db=/elsewhere/runs.db -q\n")
    assert database_from(tmp_path, {}) == "/elsewhere/runs.db"
    assert database_from(tmp_path, {"PYTEST_ADDOPTS": "--benchmark-db postgresql://h/b"}) == "postgresql://h/b"
    (tmp_path / "pytest.ini").write_text("[pytest]\nbenchmark_db = mine.db\n")
    assert database_from(tmp_path / ".", {"DB_NAME": "named.db"}) == str(tmp_path / "named.db")
    (tmp_path / "pytest.ini").write_text("[pytest\nbroken")
    assert database_from(tmp_path, {}) == str(tmp_path / "benchmark.db")


def test_a_database_that_was_named_is_not_named_again(tmp_path: Path) -> None:
    assert "Database:" not in commands_say(tmp_path, "history", "--db", "nowhere.db")
    assert f"Database: {tmp_path / 'benchmark.db'}" in commands_say(tmp_path, "history")


def test_a_home_in_version_control_is_no_project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / ".git").mkdir()
    (tmp_path / "work").mkdir()
    assert database_from(tmp_path / "work", {}) == str(tmp_path / "work" / "benchmark.db")


PLANTS_A_CHECKOUT = """
os.environ["HOME"] = sys.argv[1]
subprocess.run(["git", "init", "-q", sys.argv[1]], check=True)
options = "-c safe.directory=* -c user.name=x -c user.email=x@x".split()
subprocess.run(["git", "-C", sys.argv[1], *options, "commit", "-qm", "x", "--allow-empty"], check=True)
"""


@needs_a_second_user
def test_a_checkout_that_another_user_plants_in_tmp_is_not_the_project_of_all() -> None:
    """Their database would stand ready there, with triggers that change verdicts."""
    with shared_folder() as folder:
        run(PLANTS_A_CHECKOUT, folder)
        (folder / "work").mkdir()
        assert (folder / ".git").is_dir()
        assert database_from(folder / "work", {}) == str(folder / "work" / "benchmark.db")
        assert describe(folder / "work") is None


def test_a_checkout_of_ours_that_another_user_links_to_is_not_the_project_of_all_either(project: Project) -> None:
    (project.folder / ".git").mkdir()
    with shared_folder() as folder:
        run("os.symlink(*sys.argv[1:])", project.folder / ".git", folder / ".git")
        (folder / "work").mkdir()
        assert database_from(folder / "work", {}) == str(folder / "work" / "benchmark.db")


def test_a_branch_and_a_folder_whose_names_are_not_utf_8_are_recorded(tmp_path: Path) -> None:
    folder = tmp_path / os.fsdecode(b"caf\xe9")
    folder.mkdir()
    git = ["git", "-C", str(folder), "-c", "user.name=x", "-c", "user.email=x@x"]
    for words in (["init", "-q"], ["symbolic-ref", "HEAD", os.fsdecode(b"refs/heads/\xe9t\xe9")]):
        subprocess.run([*git, *words], check=True)
    subprocess.run([*git, "commit", "-qm", "x", "--allow-empty"], check=True)
    project = Project(folder)
    project.matrix(project.entry("a"))
    assert project.start("--benchmark", output=subprocess.DEVNULL).wait() == 0
    assert json.loads((project.session_dir / "a" / "results.json").read_text())["verdict"] == "passed"
    assert b"caf\xe9" in (project.session_dir / "a" / "command.txt").read_bytes()
    assert paths(folder / "benchmark.db") == ["matrix.yaml"]
