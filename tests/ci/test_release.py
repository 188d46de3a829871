"""ci/release.sh builds what a tag will publish, and refuses what must not be published."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest
import yaml

from curator_bench.package import VERSION

ROOT = Path(__file__).parents[2]
NEEDED = ("ci", "src/curator_bench/package.py", "CHANGELOG.md")
DATED = f"## [{VERSION}] - 2026-01-23"
BUILDS_ONLY = '#!/bin/sh\nrm -rf dist\nexec "$BIN/python" -m build --no-isolation --outdir dist . >build.log 2>&1\n'
AUTHOR = {f"GIT_{who}_{what}": "me@here" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}


def git(clone: Path, *words: str) -> str:
    done = subprocess.run(
        ["git", *words], cwd=clone, env={**os.environ, **AUTHOR}, capture_output=True, text=True, check=True
    )
    return done.stdout.strip()


def copied(folder: Path, names: list[str]) -> Path:
    """A clone with these files of here, whose changelog has a section for the version."""
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / name, folder / name)
    (folder / "CHANGELOG.md").write_text(f"# Changelog\n\n{DATED}\n")
    git(folder, "init", "--quiet")
    git(folder, "add", "--all")
    git(folder, "commit", "--quiet", "--message", "all of it")
    return folder


def files_here(*below: str) -> list[str]:
    names = git(ROOT, "ls-files", "--cached", "--others", "--exclude-standard", *below).splitlines()
    return [name for name in names if (ROOT / name).exists()]


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """What the script reads, and a Python that cannot build: what is refused is refused before."""
    return copied(tmp_path, files_here(*NEEDED))


def release(clone: Path, *words: str) -> subprocess.CompletedProcess[str]:
    env = {name: value for name, value in os.environ.items() if not name.startswith(("PYTEST_", "CURATOR_BENCH_"))}
    own = {**env, "BIN": str(Path(sys.executable).parent)}
    return subprocess.run(
        [clone / "ci" / "release.sh", *words],
        cwd=clone,
        env=own,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


def refusal(clone: Path, *words: str) -> str:
    """What it says when it refuses: one message, and nothing is built."""
    done = release(clone, *words)
    assert done.returncode == 1, done.stdout + done.stderr
    assert not (clone / "dist").exists()
    (said,) = done.stderr.splitlines()
    return said.removeprefix("release: ")


def test_a_tree_with_changes_is_refused(clone: Path) -> None:
    (clone / "ci" / "new.sh").touch()
    assert refusal(clone) == "not all is committed; commit or remove: ?? ci/new.sh "


def test_a_version_that_is_tagged_is_refused(clone: Path) -> None:
    git(clone, "tag", f"v{VERSION}")
    assert refusal(clone) == f"v{VERSION} is tagged already; raise VERSION in src/curator_bench/package.py"


@pytest.mark.parametrize("heading", ["## [Unreleased]", f"## [{VERSION}]", "## [9.9.9] - 2026-01-23"])
def test_a_changelog_without_the_version_and_its_date_is_refused(clone: Path, heading: str) -> None:
    changes = clone / "CHANGELOG.md"
    changes.write_text(changes.read_text().replace(DATED, heading))
    git(clone, "commit", "--all", "--quiet", "--message", "another heading")
    assert refusal(clone).startswith(f"CHANGELOG.md has no heading '## [{VERSION}] - YYYY-MM-DD'")


def test_a_tag_must_be_that_of_the_version_and_of_the_commit(clone: Path) -> None:
    assert (
        refusal(clone, "v9.9.9") == f"the tag v9.9.9 is not that of version {VERSION}, in src/curator_bench/package.py"
    )
    git(clone, "tag", f"v{VERSION}")
    (clone / "later").touch()
    git(clone, "add", "--all")
    git(clone, "commit", "--quiet", "--message", "later")
    assert refusal(clone, f"v{VERSION}") == f"v{VERSION} is another commit than the one that is checked out"


@pytest.mark.slow
def test_the_files_of_a_release_are_those_of_the_commit_and_fit_for_an_index(tmp_path: Path) -> None:
    """They are built only: `make dist` tries them out."""
    clone = copied(tmp_path / "clone", files_here())
    (clone / "ci" / "dist.sh").write_text(BUILDS_ONLY)
    git(clone, "commit", "--all", "--quiet", "--message", "builds only")
    done = release(clone)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("PASSED") == 2  # of twine
    assert f"git tag -a v{VERSION}" in done.stdout.splitlines()[-1]
    wheel, sdist = sorted((clone / "dist").iterdir(), key=lambda file: file.suffix, reverse=True)
    assert [wheel.name, sdist.name] == [f"curator_bench-{VERSION}-py3-none-any.whl", f"curator_bench-{VERSION}.tar.gz"]
    committed = int(git(clone, "log", "-1", "--format=%ct"))
    with tarfile.open(sdist) as archive:
        assert {member.mtime for member in archive.getmembers()} == {committed}
    with zipfile.ZipFile(wheel) as archive:
        assert len({entry.date_time for entry in archive.infolist()}) == 1


def test_only_a_job_that_runs_nothing_of_ours_may_publish() -> None:
    workflow = yaml.safe_load((ROOT / ".github" / "workflows" / "release.yml").read_text())
    jobs = workflow["jobs"]
    assert workflow["permissions"] == {"contents": "read"}
    assert {name: job["permissions"] for name, job in jobs.items() if "permissions" in job} == {
        "publish": {"id-token": "write"}
    }
    assert jobs["publish"]["environment"]
    assert jobs["publish"]["needs"] == "build"
    used = [step["uses"].partition("@")[0] for step in jobs["publish"]["steps"]]
    assert used == ["actions/download-artifact", "pypa/gh-action-pypi-publish"]
