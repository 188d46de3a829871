"""`curator-bench ab main my-branch`: each commit is measured as it is, whatever is imported from where elsewhere."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import warm
from scratch_project import make_project, takes
from scratch_repository import ScratchRepository, environment

from curator_bench.errors import BenchError
from curator_bench.hunting import worktrees
from curator_bench.hunting.building import Venv
from curator_bench.hunting.commit_sides import CommitRequest, CommitSides
from curator_bench.hunting.sides import Side

WORK = "import pkg; print(pkg.work())"


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def project(tmp_path: Path, cache: Path) -> ScratchRepository:
    return make_project(tmp_path / "project")


def ab(project: ScratchRepository, *words: str, **variables: str) -> subprocess.CompletedProcess[str]:
    return warm.run("curator-bench", "ab", *words, cwd=project.folder, env=environment(**variables), within_s=500)


def sides_of(project: ScratchRepository, *names: str, **asked: object) -> tuple[CommitSides, list[str]]:
    told = list[str]()
    wanted = {"pytest_args": ("benchmarks",), "folder": project.folder, **asked}
    return CommitSides(CommitRequest(names, **wanted), told.append), told  # type: ignore[arg-type]


def said_by(side: Side, program: str = WORK, *, is_first: bool = False) -> str:
    env = {**os.environ, **side.env, **(side.check_env if is_first else {})}
    words = [side.python, "-P", "-c", program]
    return subprocess.run(words, cwd=side.folder, env=env, capture_output=True, text=True, check=True).stdout.strip()


def works(project: ScratchRepository, *names: str, **asked: object) -> list[float]:
    with sides_of(project, *names, **asked)[0].ready() as sides:
        return [float(said_by(side)) for side in sides]


@pytest.mark.slow
def test_a_branch_is_compared_with_main_and_the_checkout_stays_as_it_is(
    project: ScratchRepository, tmp_path: Path
) -> None:
    before = project.stands()
    comment = tmp_path / "comment.md"
    words = ("main", "slow", "--markdown", str(comment), "--metric", "work_time_s", "--json")
    done = ab(project, *words, "--", "benchmarks")
    assert done.returncode == 1, done.stderr
    document = json.loads(done.stdout)
    (answer,) = document["answers"]
    assert (answer["side"], answer["verdict"], answer["state"]) == ("slow", "regression", "decided")
    assert answer["change"] == pytest.approx(0.2, abs=0.01)
    low, high = answer["interval"]
    assert 0.15 < low <= answer["change"] <= high < 0.25
    assert 0 < answer["visible"] < 0.2
    text = comment.read_text()
    assert "### Benchmarks: main → slow" in text
    assert "| 🔴 regression | work | work_time_s | slow | 0.1" in text
    assert "\n* slow is " in text
    assert project.stands() == before
    assert (project.folder / "results").is_dir(), "results stay when the worktrees are gone"


@pytest.mark.slow
def test_each_commit_is_installed_and_imported_as_it_was_committed(project: ScratchRepository) -> None:
    for told in (["main: installing", "slow: installing"], []):
        commits, said = sides_of(project, "main", "slow")
        with commits.ready() as sides:
            assert [float(said_by(side)) for side in sides] == [0.1, 0.12]
        assert [" ".join(line.split()[:2]) for line in said] == told, "what was built is used again"
    takes(project, 0.3)
    (project.folder / "src" / "pkg" / "added.py").write_text("NEW = True\n")
    assert works(project, "main", "slow", "HEAD~1") == [0.1, 0.12, 0.1]
    commits, told = sides_of(project, "main", ".")
    with commits.ready() as (_, working_tree):
        assert said_by(working_tree) == "0.3", "what is not committed"
        assert said_by(working_tree, "import pkg.added; print(pkg.added.NEW)") == "True", "what git does not know"
    assert not [line for line in told if "not measured" in line]
    told = sides_of(project, "main", "slow")[1]
    assert told == ["what is not committed is not measured; `.` instead of a commit would be"]


@pytest.mark.slow
def test_benchmarks_of_the_newer_commit_measure_both_unless_each_has_its_own(project: ScratchRepository) -> None:
    benchmarks = project.folder / "benchmarks"
    (benchmarks / "more.yaml").write_text("ray: false\nentries: [{name: more, script: work.py}]\n")
    (benchmarks / "matrix.yaml").unlink()
    project.git("add", "--all")
    project.git("commit", "--quiet", "--message", "Other benchmarks")
    for names in (("main", "slow"), ("slow", "main")):
        with sides_of(project, *names)[0].ready() as sides:
            for side in sides:
                assert {file.name for file in (side.folder / "benchmarks").iterdir()} == {"more.yaml", "work.py"}
    with sides_of(project, "main", "slow", own_benchmarks=True)[0].ready() as (main, _):
        assert (main.folder / "benchmarks" / "matrix.yaml").exists()
    with sides_of(project, "main", "slow", pytest_args=(str(benchmarks / "more.yaml"),))[0].ready() as (main, _):
        assert main.pytest_args == ("benchmarks/more.yaml",), "a path into the checkout means the worktree"


@pytest.mark.slow
def test_an_editable_install_of_the_checkout_is_not_what_is_measured(
    project: ScratchRepository, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    base = Venv(tmp_path / "base", sys.executable, "base")
    base.create()
    (base.site / "pkg.pth").write_text(f"{project.folder / 'src'}\n")
    takes(project, 0.3)
    assert subprocess.check_output([base.python, "-P", "-c", WORK], text=True).strip() == "0.3"
    monkeypatch.setattr(sys, "executable", base.python)
    assert works(project, "main", "slow") == [0.1, 0.12]
    monkeypatch.setenv("PYTHONPATH", str(project.folder / "src"))
    assert works(project, "main", "slow") == [0.1, 0.12], "PYTHONPATH means the worktree, too"


def insert_path(project: ScratchRepository, folder: str) -> None:
    """Let the benchmark begin with a trick that many have."""
    script = project.folder / "benchmarks" / "work.py"
    inserted = f"from pathlib import Path\n\nsys.path.insert(0, str({folder}))\n"
    script.write_text(script.read_text().replace("from pathlib import Path\n", inserted))
    project.git("commit", "--quiet", "--all", "--message", "A trick")
    takes(project, 0.3)


@pytest.mark.slow
def test_a_path_from_the_benchmarks_file_leads_to_the_commit(project: ScratchRepository, tmp_path: Path) -> None:
    results = tmp_path / "session" / "entry" / "benchmark_results"
    results.mkdir(parents=True)
    insert_path(project, "Path(__file__).parents[1] / 'src'")
    commits, _ = sides_of(project, "main", "slow")
    with commits.ready() as sides:
        for side, takes_s in zip(sides, (0.1, 0.12), strict=True):
            program = f"import sys; sys.argv += ['--benchmark-results-path', {str(results)!r}];"
            program += "import runpy; print(runpy.run_path('benchmarks/work.py')['work']())"
            assert said_by(side, program, is_first=True) == str(takes_s)
            commits.refuse_wrong_imports(side)


@pytest.mark.slow
def test_a_path_of_the_machine_in_a_benchmark_is_refused_each_time(project: ScratchRepository) -> None:
    """The runs of a refused comparison are recorded, and the same command would continue with them."""
    insert_path(project, repr(str(project.folder / "src")))
    for _ in range(2):
        done = ab(project, "main", "slow", "--metric", "work_time_s", "--", "benchmarks")
        assert done.returncode == 2, done.stdout
        assert "its benchmarks import modules that are not of " in done.stderr
        assert f"  pkg: {project.folder / 'src' / 'pkg'}" in done.stderr
        assert done.stderr.count(": round ") == 1, "the first run tells"


@pytest.mark.slow
def test_an_install_command_installs_into_the_environment_of_the_commit(project: ScratchRepository) -> None:
    command = "pip install --quiet --no-deps . && git rev-parse HEAD >>../installed"
    assert works(project, "main", "slow", install=command) == [0.1, 0.12]
    assert works(project, "main", "slow", install=command) == [0.1, 0.12]
    cache = Path(os.environ["XDG_CACHE_HOME"])
    assert [file.read_text().count("\n") for file in cache.rglob("installed")] == [1, 1], "it is kept"
    with pytest.raises(BenchError, match=r"(?s)main: 'echo gone; false' ended with exit code 1:\n  gone"):
        works(project, "main", "slow", install="echo gone; false")


def without_package(project: ScratchRepository) -> None:
    """Nothing is to be installed."""
    (project.folder / "pyproject.toml").unlink()
    project.git("commit", "--quiet", "--all", "--message", "No project")


def test_what_is_not_used_for_days_is_removed(project: ScratchRepository, cache: Path) -> None:
    without_package(project)
    with sides_of(project, "slow")[0].ready():
        (used,) = cache.rglob("used")
    os.utime(used, (0, 0))
    with sides_of(project, "slow~2", own_benchmarks=True)[0].ready():
        assert not used.parent.exists()
    assert project.git("worktree", "list").count("\n") == 1


def test_what_a_killed_comparison_has_left_is_made_anew(project: ScratchRepository, cache: Path) -> None:
    without_package(project)
    for left in ("index.lock", "locked"):
        with sides_of(project, "slow")[0].ready() as (side,):
            assert (side.folder / "benchmarks").is_dir()
        (project.folder / ".git" / "worktrees" / "tree" / left).touch()
        if left == "locked":
            shutil.rmtree(side.folder)
    with sides_of(project, "slow")[0].ready() as (side,):
        assert (side.folder / "benchmarks").is_dir()


def test_only_so_many_commits_are_kept(
    project: ScratchRepository, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(worktrees, "KEPT_FOLDERS", 1)
    without_package(project)
    for number in range(3):
        project.git("commit", "--quiet", "--all", "--allow-empty", "--message", f"{number}")
        with sides_of(project, "slow")[0].ready():
            assert len(list(cache.rglob("used"))) == min(number + 1, 2), "the newest, and the one in use"


def test_benchmarks_outside_of_the_repository_are_named_from_anywhere(
    project: ScratchRepository, tmp_path: Path
) -> None:
    (tmp_path / "outside.yaml").touch()
    without_package(project)
    with sides_of(project, "slow", pytest_args=("../outside.yaml",))[0].ready() as (side,):
        assert side.pytest_args == (str(tmp_path / "outside.yaml"),)


def test_a_branch_without_benchmarks_is_measured_with_those_of_the_other(project: ScratchRepository) -> None:
    """As each branch was that began before there were benchmarks."""
    without_package(project)
    project.git("checkout", "--quiet", "-b", "early")
    project.git("rm", "-r", "--quiet", "benchmarks")
    project.git("commit", "--quiet", "--message", "No benchmarks yet")
    for names in (("slow", "early"), ("early", "slow")):
        with sides_of(project, *names)[0].ready() as sides:
            assert [(side.folder / "benchmarks" / "work.py").exists() for side in sides] == [True, True]


def test_a_comparison_waits_for_the_end_of_another(project: ScratchRepository) -> None:
    without_package(project)
    commits, told = sides_of(project, "slow")

    def compare() -> int:
        with commits.ready() as sides:
            return len(sides)

    with ThreadPoolExecutor(1) as pool:
        with sides_of(project, "slow")[0].ready():
            waiting = pool.submit(compare)
            while not told:
                time.sleep(0.01)
            assert told == ["another comparison measures on this machine: waiting for its end"]
            assert not waiting.done()
        assert waiting.result(60) == 1


def test_what_was_measured_is_no_part_of_the_working_tree(project: ScratchRepository) -> None:
    without_package(project)
    (project.folder / ".gitignore").unlink()
    project.git("commit", "--quiet", "--all", "--message", "Nothing is ignored")
    (project.folder / "added [1].py").touch()
    before = sides_of(project, ".")[0].commits
    for name in ("benchmark.db", "benchmark.db-wal", "results/one/session.json", "src/results/two"):
        (project.folder / name).parent.mkdir(parents=True, exist_ok=True)
        (project.folder / name).touch()
    commits = sides_of(project, ".")[0]
    assert commits.commits == before
    with commits.ready() as (side,):
        there = {file.name for file in side.folder.iterdir()}
        assert there >= {"added [1].py", "src"}
        assert not there & {"benchmark.db", "results"}


def test_sides_are_called_as_the_user_names_them(project: ScratchRepository) -> None:
    assert sides_of(project, "HEAD^1", "HEAD", labels=("main", "mine/new"))[0].names == ["main", "mine-new"]
    assert sides_of(project, "HEAD^1", "HEAD", labels=("main",))[0].names == ["main", "HEAD"]
    assert sides_of(project, "HEAD^1", "HEAD", labels=("", "mine"))[0].names == ["HEAD-1", "mine"]
    with pytest.raises(BenchError, match="2 names for 1 commit"):
        sides_of(project, "HEAD", labels=("main", "mine"))


@pytest.mark.parametrize(
    ("names", "asked", "problem"),
    [
        (("main", "slwo"), {}, "no commit 'slwo' in .*; did you mean 'slow'?"),
        (("main", "slow"), {"pytest_args": (".",)}, ". is the whole project: name the folder of the benchmarks"),
        (("main", "slow"), {"pytest_args": ("bench",)}, "bench: no benchmarks in .* Slow; name their folder after --"),
        (("main", "slow"), {"pytest_args": ("-m", "quick")}, "-m quick: no benchmarks in .* Slow; name their folder"),
        (
            ("main", "slow"),
            {"pytest_args": ("new.yaml",)},
            "new.yaml is not in .* Slow: commit it, or compare with `.`",
        ),
    ],
)
def test_what_cannot_be_compared_is_told_at_once(
    project: ScratchRepository, names: tuple[str, ...], asked: dict[str, object], problem: str
) -> None:
    (project.folder / "new.yaml").touch()
    with pytest.raises(BenchError, match=problem.replace("?", r"\?")):
        sides_of(project, *names, **asked)
