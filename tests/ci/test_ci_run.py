"""`.ci/run`: everything in order, the other environments installed meanwhile, and a failure that is told as such."""

from __future__ import annotations

import itertools
import os
import shutil
import subprocess
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
MAKE = """#!/bin/sh
case "$*" in
    *.venv-*.installed*) echo $$ >installer; [ -z "$HANGS" ] || exec sleep 600 ;;
    *) while [ ! -s installer ]; do sleep 0.01; done; echo "$*" >>made; echo "$SUITES" >"suites of $1" ;;
esac
case "$*" in
    "$AFTER") while ! grep -qx "$AWAITS" made; do sleep 0.01; done ;;
    "$FAILS" | *" $FAILS"*) echo "the disk is full"; exit 2 ;;
esac
"""
AT_FIRST = ("dist", "check")
FIRST = ["test", "test-slow", "test-proofs"]
AT_LAST = ("test-attention", "test-curator", "test-floors", "test-plugins")


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
    """After the installation, which takes place first."""
    first, *others = (clone / "made").read_text().split()
    assert first == ".venv/.installed"
    return others


def test_all_is_made_checks_tests_and_proofs_first(clone: Path) -> None:
    outcome = run(clone)
    assert (outcome.returncode, outcome.stdout.splitlines()[-1]) == (0, "== all of it holds")
    assert sorted(made(clone)[:2]) == sorted(AT_FIRST)
    assert made(clone)[2:5] == FIRST
    assert sorted(made(clone)[5:]) == sorted(AT_LAST)


@pytest.mark.parametrize(("one", "other"), [AT_FIRST[::-1], *itertools.pairwise(AT_LAST)])
def test_what_leaves_a_core_idle_is_made_side_by_side(clone: Path, one: str, other: str) -> None:
    assert run(clone, AFTER=one, AWAITS=other).returncode == 0


@pytest.mark.parametrize("target", FIRST)
def test_what_fails_ends_it_and_is_not_tried_again(clone: Path, target: str) -> None:
    outcome = run(clone, fails=target)
    assert outcome.returncode == 1
    assert f"== make {target} failed" in outcome.stderr
    assert made(clone)[2:] == FIRST[: FIRST.index(target) + 1]


@pytest.mark.parametrize("target", [*AT_FIRST, *AT_LAST])
def test_whatever_fails_is_named_with_its_output(clone: Path, target: str) -> None:
    outcome = run(clone, fails=target)
    assert outcome.returncode == 1
    assert "the disk is full" in outcome.stdout
    assert f"== make {target} failed" in outcome.stderr
    assert "all of it holds" not in outcome.stdout
    assert (target in AT_LAST) is ("test" in made(clone))


def test_only_the_suites_at_the_end_are_shorter(clone: Path) -> None:
    run(clone)
    short = {
        file.name.removeprefix("suites of ") for file in clone.glob("suites of test*") if "short" in file.read_text()
    }
    assert short == set(AT_LAST)


def test_what_could_not_be_installed_is_told_with_its_reason_before_it_is_needed(clone: Path) -> None:
    outcome = run(clone, fails=".venv-curator")
    assert outcome.returncode == 1
    assert "the disk is full" in outcome.stdout
    assert "== installing the other environments failed" in outcome.stderr
    assert made(clone)[2:] == FIRST


def test_a_check_that_fails_ends_the_installation(clone: Path) -> None:
    outcome = run(clone, fails="check", hangs="yes")
    assert outcome.returncode == 1
    assert "== make check failed" in outcome.stderr
    installer = Path("/proc", (clone / "installer").read_text().strip())
    deadline = time.monotonic() + 20
    while installer.exists():
        assert time.monotonic() < deadline, "it goes on"
        time.sleep(0.02)
