"""Where all users can create files, nothing is imported, written or removed by a name that another user made first."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import warm
from other_user import needs_a_second_user, run, shared_folder

from curator_bench.cluster.interpreters import interpreter_with_ray

if TYPE_CHECKING:
    from end_to_end.conftest import Project

pytestmark = needs_a_second_user

PLANTS = """
names = "json importlib ray platform runpy curator_bench mlflow logging asyncio ssl grpc pytest pip"
for name in names.split():
    with open(f"{sys.argv[1]}/{name}.py", "w") as file:
        file.write("import os, sys\\n")
        file.write("os.open(os.path.dirname(__file__) + '/ran-' + __name__, os.O_CREAT | os.O_WRONLY)\\n")
        file.write("raise ImportError('planted')\\n")
"""
ANOTHER_PYTHON = f"{sys.base_prefix}/bin/python3"


@pytest.fixture
def planted() -> Iterator[Path]:
    with shared_folder() as folder:
        run(PLANTS, folder)
        assert (folder / "json.py").exists()
        yield folder


PLANTS_A_FOLDER = """
os.umask(0)
os.mkdir(sys.argv[1])
os.mkdir(sys.argv[1] + "/one")
with open(sys.argv[1] + "/session.json", "w") as file:
    file.write(sys.argv[2])
"""


def ran(folder: Path) -> list[str]:
    return sorted(file.name for file in folder.glob("ran-*"))


def pytest_in(folder: Path, project: Project, *options: str) -> None:
    matrix, results = project.folder / "matrix.yaml", project.folder / "results"
    own = ["--bench-results", str(results), "--bench-session", "s", "--benchmark", "-pno:cacheprovider"]
    done = warm.run("pytest", str(matrix), *own, *options, cwd=folder, env=project.environment(), stderr_apart=False)
    assert done.returncode == 0, done.stdout


def test_questions_to_another_python_import_nothing_from_the_working_folder(project: Project, planted: Path) -> None:
    project.matrix(project.entry("one", python=ANOTHER_PYTHON, requires=["json"]))
    pytest_in(planted, project)
    assert ran(planted) == []


def test_a_cluster_looks_for_ray_where_scripts_find_it(planted: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(planted)
    assert interpreter_with_ray(ANOTHER_PYTHON, {}) in (sys.executable, ANOTHER_PYTHON)
    assert ran(planted) == []


@pytest.mark.slow
def test_the_workers_of_a_fleet_and_the_children_of_sinks_import_nothing_from_there(
    project: Project, planted: Path
) -> None:
    """Ray itself adds the folder of a driver to the path of all workers."""
    sink = {"name": "mlflow", "tracking_uri": f"sqlite:///{project.folder}/mlflow.db", "experiment": "one"}
    project.matrix(project.entry("one"), sinks=[sink])
    pytest_in(planted, project, "--bench-fleet", "local", "--bench-fleet-cpus", "1")
    assert (project.folder / "mlflow.db").exists()
    assert ran(planted) == []


@pytest.fixture
def home(project: Project) -> Path:
    """A folder of ours that has files where runs have theirs."""
    folder = project.folder / "home"
    (folder / "one" / "logs").mkdir(parents=True)
    for name in ("summary.json", "one/logs/file"):
        (folder / name).write_text("precious")
    return folder


@pytest.mark.parametrize("is_for_artifacts", [False, True])
def test_a_session_follows_no_link_that_another_user_made_first(
    project: Project, home: Path, is_for_artifacts: bool
) -> None:
    """As in results or on a scratch disk that all users share."""
    with shared_folder() as shared:
        run("os.symlink(*sys.argv[1:])", home, shared / "s")
        project.matrix(project.entry("one"), **({"artifacts_dir": str(shared)} if is_for_artifacts else {}))
        outcome = project.run(*([] if is_for_artifacts else ["--bench-results", str(shared)]))
        assert outcome.code == pytest.ExitCode.USAGE_ERROR
        assert outcome.has(f"the session's folder {shared}/s belongs to another user (uid 65534); name another session")
        assert {path.read_text() for path in home.rglob("*") if path.is_file()} == {"precious"}


def test_a_session_that_another_user_has_planted_is_not_joined(project: Project) -> None:
    project.matrix(project.entry("one"))
    document = {"session": "s", "started_at": "2999", "matrices": ["matrix.yaml"], "invocations": []}
    with shared_folder() as shared:
        run(PLANTS_A_FOLDER, shared / "s", json.dumps(document))
        named = project.run("--bench-results", str(shared))
        assert named.code == pytest.ExitCode.USAGE_ERROR
        _, _, *words = (word for word in project.command("--bench-resume") if word not in ("--bench-session", "s"))
        words[words.index("results")] = str(shared)
        newest = warm.run(*words, cwd=project.folder, env=project.environment(), stderr_apart=False)
        assert newest.returncode == 0, newest.stdout
        (run_here,) = shared.glob("*/one/results.json")
        assert run_here.parents[1] != shared / "s"


@pytest.mark.parametrize("mode", [0o777, 0o1777])
def test_sessions_of_ours_go_on_in_a_folder_that_all_users_share(project: Project, mode: int) -> None:
    project.matrix(project.entry("one"))
    with shared_folder(mode) as shared:
        for options in ((), ("--bench-resume",)):
            assert project.run("--bench-results", str(shared), *options).code == 0
        assert (shared / "s" / "one" / "results.json").exists()


LINKS_NAMES_TO_COME = """
folder, target, name, first = sys.argv[1:]
for pid in range(int(first), int(first) + 2000):
    os.symlink(target, f"{folder}/{name}.unfinished-{pid}")
"""
PLANTS_A_DASHBOARD = """
out, target = sys.argv[1:]
os.umask(0)
os.mkdir(out)
os.symlink(target, out + "/.curator-bench-site")
"""


def command(project: Project, *words: str | Path) -> subprocess.CompletedProcess[str]:
    env = project.environment(CURATOR_BENCH_DB=str(project.folder / "runs.db"))
    return warm.run("curator-bench", *words, cwd=project.folder, env=env, stderr_apart=False)


@pytest.fixture
def recorded(project: Project) -> Project:
    project.matrix(project.entry("one"))
    assert project.run("--benchmark", "--benchmark-db", "runs.db").code == 0
    return project


def test_an_export_writes_through_no_link_of_a_name_to_come(recorded: Project, home: Path) -> None:
    with shared_folder() as shared:
        pid = int(Path("/proc/loadavg").read_text().split()[-1])
        run(LINKS_NAMES_TO_COME, shared, home / "summary.json", "runs.csv", pid)
        done = command(recorded, "export", "--format", "csv", "--out", shared / "runs.csv")
        assert done.returncode == 0, done.stdout
        assert "one" in (shared / "runs.csv").read_text()
    assert (home / "summary.json").read_text() == "precious"


def test_a_dashboard_is_not_built_in_a_folder_of_another_user(recorded: Project, home: Path) -> None:
    with shared_folder() as shared:
        run(PLANTS_A_DASHBOARD, shared / "site", home / "summary.json")
        done = command(recorded, "report", "--out", shared / "site")
        assert done.returncode == 1
        assert f"{shared}/site belongs to another user (uid 65534); name a folder of your own" in done.stdout
    assert (home / "summary.json").read_text() == "precious"


@pytest.mark.parametrize("words", [["bisect-step"], ["ab", "a.yaml", "b.yaml", "--repeat", "5"]], ids=["bisect", "ab"])
def test_the_pytest_of_a_comparison_imports_nothing_from_there(
    recorded: Project, planted: Path, words: list[str]
) -> None:
    """Python adds the working folder to the path of `python -m pytest`, but not to that of `pytest`."""
    for side in ("a", "b"):
        recorded.write(f"{side}.yaml", f"name: {side}")
    files = [str(recorded.folder / word) if word.endswith(".yaml") else word for word in words]
    env = recorded.environment(CURATOR_BENCH_DB=str(recorded.folder / "runs.db"))
    matrix, results = recorded.folder / "matrix.yaml", recorded.folder / "results"
    warm.run(
        *("curator-bench", *files, "--", str(matrix), "--bench-results", str(results), "-k", "nothing"),
        cwd=planted,
        env=env,
        stderr_apart=False,
    )
    assert ran(planted) == []


PLANTS_RESULTS = """
top, target, leaf = sys.argv[1:]
os.makedirs(top + "/" + leaf)
os.symlink(target, top + "/" + leaf + "/s")
"""


@pytest.mark.parametrize("leaf", ["results", "work/results"])
def test_a_session_is_not_run_in_a_results_directory_that_another_user_made_first(
    project: Project, home: Path, leaf: str
) -> None:
    """Its owner may replace a session by a link at any time, and an entry's folder is emptied before a run."""
    project.matrix(project.entry("one"))
    with shared_folder() as shared:
        run(PLANTS_RESULTS, shared, home, leaf)
        outcome = project.run("--bench-results", str(shared / leaf))
        assert outcome.code == pytest.ExitCode.USAGE_ERROR
        first = shared / Path(leaf).parts[0]
        assert outcome.has(f"{first} belongs to another user (uid 65534), who could replace what is written to")
        project.matrix(project.entry("one"), artifacts_dir=str(shared / leaf))
        assert project.run().code == pytest.ExitCode.USAGE_ERROR
    assert {path.read_text() for path in home.rglob("*") if path.is_file()} == {"precious"}


@pytest.mark.parametrize("trusted", ["nobody", "1, 65534"])
def test_the_folder_of_a_trusted_user_is_used(project: Project, trusted: str) -> None:
    project.matrix(project.entry("one"))
    with shared_folder() as shared:
        run("os.mkdir(sys.argv[1])", shared / "results")
        outcome = project.run("--bench-results", str(shared / "results"), CURATOR_BENCH_TRUSTED_USERS=trusted)
        assert outcome.code == 0, outcome.output


def test_a_report_is_not_written_through_a_link_of_another_user(recorded: Project, home: Path) -> None:
    with shared_folder() as shared:
        run("os.symlink(*sys.argv[1:])", home / "summary.json", shared / "report.md")
        done = command(recorded, "report", "--format", "markdown", "--out", shared / "report.md")
        assert done.returncode == 1
        assert f"{shared}/report.md cannot be written: belongs to another user (uid 65534)" in done.stdout
        own = shared / "own.md"
        own.symlink_to(recorded.folder / "report.md")
        for _ in range(2):
            assert command(recorded, "report", "--format", "markdown", "--out", own).returncode == 0
        assert "1 passed" in (recorded.folder / "report.md").read_text()
    assert (home / "summary.json").read_text() == "precious"


PLANTS_LINKS = """
folder, target = sys.argv[1:]
os.umask(0)
os.mkdir(folder + "/s")
os.symlink(target, folder + "/s/summary.json")
os.symlink(target, folder + "/runs.jsonl")
os.symlink(target, folder + "/summary.md")
"""


def test_sinks_write_through_no_link_of_another_user(project: Project, home: Path) -> None:
    with shared_folder() as shared:
        run(PLANTS_LINKS, shared, home / "summary.json")
        sinks = [
            {"name": "copy", "to": str(shared)},
            {"name": "jsonl", "path": str(shared / "runs.jsonl")},
            {"name": "github", "step_summary": str(shared / "summary.md")},
        ]
        project.matrix(project.entry("one"), sinks=sinks)
        outcome = project.run("--benchmark", "--benchmark-db", "runs.db")
        assert outcome.code == 0, outcome.output
        assert outcome.output.count("belongs to another user (uid 65534)") >= len(sinks), outcome.output
        assert sorted(file.name for file in (shared / "s").iterdir()) == ["summary.json"]
    assert (home / "summary.json").read_text() == "precious"
