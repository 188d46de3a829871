"""What a clone promises as such: tested versions, a set-up that happens once, scripts that say what is wrong."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import time
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
CONSTRAINT = re.compile(r"([A-Za-z0-9._-]+)==[A-Za-z0-9.!+_-]+")
RECORDS_THE_SET_UP = """#!/usr/bin/env bash
set -euo pipefail
echo "$@" >>set-ups.txt
mkdir -p .venv/bin
ln -sf "$(type -P true)" .venv/bin/python
pwd -P >.venv/.installed
"""


def plain(name: str) -> str:
    """A package's name as package tools compare it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def constraint_names() -> set[str]:
    lines = (ROOT / "constraints.txt").read_text().splitlines()
    return {plain(match[1]) for line in lines if (match := CONSTRAINT.fullmatch(line))}


def installed_extras() -> list[str]:
    found = re.search(r"^EXTRAS := (\S+)$", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert found
    return found[1].split(",")


def requirements_of(extras: list[str]) -> set[str]:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    requirements = [
        *project["dependencies"],
        *(one for extra in extras for one in project["optional-dependencies"][extra]),
    ]
    return {plain(re.split(r"[\[<>=!~ ]", requirement)[0]) for requirement in requirements}


def without_make(extra: dict[str, str]) -> dict[str, str]:
    """The environment of a person at a prompt, also where these tests were started by make themselves."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("MAKE") and name != "PYTHON"}
    return kept | extra


def run(command: list[str], folder: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command, cwd=folder, env=without_make(environment), capture_output=True, text=True, timeout=120, check=False
    )


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """A copy of what set-up reads, with a set-up that only writes down that it was called."""
    folder = tmp_path / "clone"
    shutil.copytree(ROOT / "ci", folder / "ci")
    for name in ("Makefile", "pyproject.toml", "constraints.txt"):
        shutil.copy(ROOT / name, folder)
    (folder / "ci" / "setup.sh").write_text(RECORDS_THE_SET_UP)
    return folder


def make_test(folder: Path) -> int:
    """Runs `make test` there, and returns how often set-up has run by now."""
    outcome = run(["make", "test"], folder)
    assert outcome.returncode == 0, outcome.stdout + outcome.stderr
    return len((folder / "set-ups.txt").read_text().splitlines())


def change(file: Path) -> None:
    time.sleep(0.05)  # file times are only so fine
    file.touch()


def test_constraints_are_nothing_but_names_and_versions() -> None:
    lines = (ROOT / "constraints.txt").read_text().splitlines()
    assert lines
    assert [line for line in lines if not CONSTRAINT.fullmatch(line)] == []


def test_every_package_that_is_asked_for_has_a_tested_version() -> None:
    assert requirements_of([]) <= constraint_names()
    assert requirements_of(installed_extras()) <= constraint_names()


def test_a_second_make_installs_nothing(clone: Path) -> None:
    assert [make_test(clone), make_test(clone)] == [1, 1]


@pytest.mark.parametrize("name", ["pyproject.toml", "constraints.txt"])
def test_a_change_of_what_is_needed_is_installed_once(clone: Path, name: str) -> None:
    make_test(clone)
    change(clone / name)
    assert [make_test(clone), make_test(clone)] == [2, 2]


def test_a_clone_that_was_moved_is_set_up_again(clone: Path) -> None:
    make_test(clone)
    moved = clone.rename(clone.parent / "moved clone")
    assert [make_test(moved), make_test(moved)] == [2, 2]


def test_an_environment_whose_python_is_gone_is_set_up_again(clone: Path) -> None:
    make_test(clone)
    (clone / ".venv" / "bin" / "python").unlink()
    assert make_test(clone) == 2


def test_a_set_up_that_failed_counts_for_nothing_and_is_tried_again(clone: Path) -> None:
    for name in ("setup.sh", "install.py"):
        shutil.copy(ROOT / "ci" / name, clone / "ci")
    (clone / "pyproject.toml").write_text("[this is not TOML")
    assert run(["make", "test"], clone).returncode != 0
    assert (clone / ".venv" / "bin" / "python").exists()
    (clone / "ci" / "setup.sh").write_text(RECORDS_THE_SET_UP)
    assert make_test(clone) == 1


def test_a_machine_without_a_fitting_python_is_told_in_one_line(clone: Path) -> None:
    shutil.copy(ROOT / "ci" / "setup.sh", clone / "ci")
    outcome = run(["make", "test", "PYTHON=python2.7-that-is-not-here"], clone)
    said, from_make = outcome.stderr.splitlines()
    assert "needs Python 3.11 or newer" in said
    assert "python2.7-that-is-not-here" in said
    assert from_make.startswith("make:")
    assert not (clone / ".venv").exists()


def test_make_alone_names_every_command() -> None:
    names = re.findall(r"^make (\w+) ", run(["make"], ROOT).stdout, re.MULTILINE)
    assert set(names) >= {"bench", "test", "proof", "check", "dist", "format", "clean"}


@pytest.mark.parametrize("arguments", [["heads"], ["upgrade", "head"], ["upgrade", "head", "--sql"]])
def test_migrations_run_from_a_clone(arguments: list[str], tmp_path: Path) -> None:
    outcome = run([sys.executable, "-m", "alembic", "--config", str(ROOT / "alembic.ini"), *arguments], tmp_path)
    assert outcome.returncode == 0, outcome.stderr
