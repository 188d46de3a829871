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
[ "$*" = test ] && [ "$DOUBTFUL" -gt 0 ] && {
    mkdir -p .pytest_cache/v/cache
    { echo "{"; seq -f '  "tests/test_%g.py::test_it": true,' "$DOUBTFUL"; echo "}"; } >.pytest_cache/v/cache/lastfailed
    exit 2
}
case "$*" in
    "$AFTER") while ! grep -qx "$AWAITS" made; do sleep 0.01; done ;;
    *"$FAILS"*) echo "the disk is full"; exit 2 ;;
esac
"""
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
    own = {"PATH": path, "FAILS": fails, "HANGS": hangs, "AFTER": "", "AWAITS": "", "DOUBTFUL": "0", **more}
    return subprocess.run([clone / ".ci" / "run"], env=own, capture_output=True, text=True, timeout=60, check=False)


def made(clone: Path) -> list[str]:
    return (clone / "made").read_text().split()


def test_all_is_made_checks_tests_and_proofs_first(clone: Path) -> None:
    outcome = run(clone)
    assert (outcome.returncode, outcome.stdout.splitlines()[-1]) == (0, "== all of it holds")
    assert made(clone)[:3] == ["check", "test", "test-proofs"]
    assert sorted(made(clone)[3:]) == sorted(TOGETHER)


def test_what_needs_most_of_the_time_is_made_side_by_side(clone: Path) -> None:
    assert run(clone, AFTER="test-attention", AWAITS="dist").returncode == 0


def test_a_few_tests_that_fail_are_tried_once_more_alone_and_named(clone: Path) -> None:
    outcome = run(clone, DOUBTFUL="5")
    assert outcome.returncode == 0
    assert '"tests/test_5.py::test_it": true' in outcome.stdout
    again = "test TEST_WORKERS=0 PYTEST_ARGS=--last-failed --last-failed-no-failures none"
    assert (clone / "made").read_text().splitlines()[1:4] == ["test", again, "test-proofs"]


@pytest.mark.parametrize(("fails", "doubtful"), [("--last-failed", "1"), ("nothing", "6"), ("test", "0")])
def test_tests_that_fail_again_or_are_many_end_it(clone: Path, fails: str, doubtful: str) -> None:
    outcome = run(clone, fails=fails, DOUBTFUL=doubtful)
    assert outcome.returncode == 1
    assert "== make test failed" in outcome.stderr
    assert "test-proofs" not in made(clone)


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
    assert made(clone) == ["check", "test", "test-proofs"]


def test_a_check_that_fails_ends_the_installation(clone: Path) -> None:
    outcome = run(clone, fails="check", hangs="yes")
    assert outcome.returncode == 1
    assert "== make check failed" in outcome.stderr
    installer = Path("/proc", (clone / "installer").read_text().strip())
    deadline = time.monotonic() + 20
    while installer.exists():
        assert time.monotonic() < deadline, "it goes on"
        time.sleep(0.02)
