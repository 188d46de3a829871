"""`.ci/run`: everything in order, the other environments installed meanwhile, and a failure that is told as such."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
MAKE = """#!/bin/sh
case "$*" in
    *.installed*) echo $$ >installer; [ -z "$HANGS" ] || exec sleep 600 ;;
    *) while [ ! -s installer ]; do sleep 0.01; done; echo "$*" >>made ;;
esac
case "$*" in
    "$AFTER") while ! grep -qx "$AWAITS" made; do sleep 0.01; done ;;
    "$FAILS" | *" $FAILS"*) echo "the disk is full"; exit 2 ;;
esac
"""
FIRST = ["check", "test", "test-slow", "test-proofs"]
TOGETHER = ("test-attention", "test-curator", "dist")


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """With a `make` that writes down what it was asked for."""
    shutil.copytree(ROOT / ".ci", tmp_path / ".ci")
    for name, text in {"ci/postgres.sh": "#!/bin/sh\n", "ci/chromium.sh": "#!/bin/sh\n", "bin/make": MAKE}.items():
        file = tmp_path / name
        file.parent.mkdir(exist_ok=True)
        file.write_text(text)
        file.chmod(0o755)
    return tmp_path


def run(clone: Path, fails: str = "nothing", hangs: str = "", **more: str) -> subprocess.CompletedProcess[str]:
    path = f"{clone / 'bin'}:{os.environ['PATH']}"
    own = {"PATH": path, "FAILS": fails, "HANGS": hangs, "AFTER": "", "AWAITS": "", **more}
    return subprocess.run([clone / ".ci" / "run"], env=own, capture_output=True, text=True, timeout=60, check=False)


def made(clone: Path) -> list[str]:
    return (clone / "made").read_text().split()


def test_all_is_made_checks_tests_and_proofs_first(clone: Path) -> None:
    outcome = run(clone)
    assert (outcome.returncode, outcome.stdout.splitlines()[-1]) == (0, "== all of it holds")
    assert made(clone)[:4] == FIRST
    assert sorted(made(clone)[4:]) == sorted(TOGETHER)


def test_what_needs_most_of_the_time_is_made_side_by_side(clone: Path) -> None:
    assert run(clone, AFTER="test-attention", AWAITS="dist").returncode == 0


@pytest.mark.parametrize("target", FIRST)
def test_what_fails_ends_it_and_is_not_tried_again(clone: Path, target: str) -> None:
    outcome = run(clone, fails=target)
    assert outcome.returncode == 1
    assert f"== make {target} failed" in outcome.stderr
    assert made(clone) == FIRST[: FIRST.index(target) + 1]


@pytest.mark.parametrize("target", TOGETHER)
def test_whatever_fails_is_named_with_its_output(clone: Path, target: str) -> None:
    outcome = run(clone, fails=target)
    assert outcome.returncode == 1
    assert "the disk is full" in outcome.stdout
    assert f"== make {target} failed" in outcome.stderr
    assert "all of it holds" not in outcome.stdout


def test_what_could_not_be_installed_is_told_with_its_reason_before_it_is_needed(clone: Path) -> None:
    outcome = run(clone, fails=".venv-curator")
    assert outcome.returncode == 1
    assert "the disk is full" in outcome.stdout
    assert "== installing the other environments failed" in outcome.stderr
    assert made(clone) == FIRST


def test_a_check_that_fails_ends_the_installation(clone: Path) -> None:
    outcome = run(clone, fails="check", hangs="yes")
    assert outcome.returncode == 1
    assert "== make check failed" in outcome.stderr
    installer = Path("/proc", (clone / "installer").read_text().strip())
    deadline = time.monotonic() + 20
    while installer.exists():
        assert time.monotonic() < deadline, "it goes on"
        time.sleep(0.02)
