"""`git bisect run curator-bench bisect-step`, by hand: the exit codes of real pytests, and git that heeds them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import warm
from scratch_repository import ScratchRepository, environment, make_repository

COMMAND = Path(sys.executable).with_name("curator-bench")
LIMIT = "    requirements: [{metric: work_time_s, max_value: 0.08}]\n"


def step(folder: Path, *words: str) -> tuple[int, str]:
    done = warm.run("curator-bench", "bisect-step", *words, cwd=folder, env=environment())
    return done.returncode, done.stdout + done.stderr


@pytest.fixture
def repository(tmp_path: Path) -> ScratchRepository:
    made = make_repository(tmp_path / "project", seed=1, slower_at=3, by=1.0, commits=4)
    made.git("checkout", "--quiet", "c4")
    return made


@pytest.mark.slow
def test_git_finds_the_commit_by_a_requirement(repository: ScratchRepository, tmp_path: Path) -> None:
    matrix = repository.folder / "noise" / "limit.yaml"
    matrix.write_text("entries:\n  - name: work\n" + LIMIT)
    repository.git("bisect", "start", "c4", "c1")
    words = [str(COMMAND), "bisect-step", "--", "benchmarks", "-k", "work", "--bench-matrix", "noise/limit.yaml"]
    done = subprocess.run(
        ["git", "bisect", "run", *words],
        cwd=repository.folder,
        env=environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    assert f"{repository.git('rev-parse', 'c3')} is the first bad commit" in done.stdout.replace("'", "")
    assert done.returncode == 0


@pytest.mark.parametrize(
    ("name", "text", "words", "code"),
    [
        ("package.py", "raise SystemExit(1)", (), 1),
        ("package.py", "raise SystemExit(1)", ("--skip-broken",), 125),
        ("benchmarks/test_it.py", "import not_there", (), 125),
        ("benchmarks/conftest.py", "import not_there", (), 132),
        ("benchmarks/matrix.yaml", "entries: [{name: work, scrip: work.py}]", (), 132),
    ],
    ids=["crash", "skipped crash", "collection error", "conftest", "matrix"],
)
def test_codes_of_what_is_broken(
    repository: ScratchRepository, name: str, text: str, words: tuple[str, ...], code: int
) -> None:
    (repository.folder / name).write_text(text)
    assert step(repository.folder, *words, "--", "benchmarks")[0] == code


def test_what_is_no_fault_of_a_commit_stops_git(repository: ScratchRepository) -> None:
    assert step(repository.folder, "--", "benchmarks", "-k", "nothing")[0] == 133
    assert step(repository.folder, "--", "benchmarks", "--no-such-option")[0] == 132
    assert step(repository.folder, "--no-such-option", "--", "benchmarks")[0] == 132
    code, said = step(repository.folder)
    assert (code, "name what to run" in said) == (132, True)
