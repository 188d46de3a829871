"""`curator-bench bisect --packages` as its users run it: real installs from a local index name the packages."""

from __future__ import annotations

import json
import platform
import re
import signal
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
import warm
from hung_processes import outputs_of
from package_project import SLOW, PackageProject, make_package_project, make_slow_together
from tiny_wheels import make_wheel

COMMAND = Path(sys.executable).with_name("curator-bench")
ASKED = ("--entry", "work", "--metric", "work_time_s")


def names(count: int) -> list[str]:
    return [f"p{number:02}" for number in range(count)]


def bisect(project: PackageProject, *words: str, sides: tuple[str, str] = ("a.txt", "b.txt")) -> tuple[int, str, str]:
    done = warm.run(
        "curator-bench", "bisect", "--packages", *sides, *ASKED, *words, cwd=project.folder, env=project.environment()
    )
    assert "Traceback" not in done.stderr
    return done.returncode, done.stdout, done.stderr


def answered(project: PackageProject, *words: str, **more: Any) -> dict[str, Any]:
    code, output, errors = bisect(project, "--json", *words, **more)
    assert code == 0, errors
    return dict(json.loads(output))


def culprits(found: dict[str, Any]) -> list[str]:
    return [one["name"] for one in found["culprits"]]


@pytest.mark.slow
def test_one_guilty_package_of_64_is_named(tmp_path: Path) -> None:
    project = make_package_project(tmp_path / "project", names(64), ["p41"])
    code, output, errors = bisect(project)
    assert code == 0, errors
    assert "64 packages differ between a.txt (A) and b.txt (B)" in errors
    assert "Guilty:\n  p41 1.0 → 2.0\n" in output
    tried = re.findall(r"^(\S.* as in B|a\.txt|b\.txt) +\d+ +\d+ +[\d.e-]+ ", output, re.MULTILINE)
    assert len([label for label in tried if label != "only p41 as in B"]) <= 8
    assert tried.count("only p41 as in B") == 1, "and confirmed"


@pytest.mark.slow
def test_two_packages_that_are_slow_for_themselves_are_named_each_with_its_share(tmp_path: Path) -> None:
    project = make_package_project(tmp_path / "project", names(2), names(2))
    found = answered(project)
    assert sorted(culprits(found)) == names(2)
    assert sorted(one["packages"][0]["name"] for one in found["causes"]) == names(2)
    assert [one["share"] for one in found["causes"]] == pytest.approx([0.5, 0.5], abs=0.15)
    assert found["explains_all"] is not False
    code, output, errors = bisect(project)
    assert (code, "measuring" in errors) == (0, False)
    assert re.search(r"^Guilty:\n  p0[01] 1.0 → 2.0\n  work_time_s .*\nGuilty, too:\n  p0[01] ", output, re.MULTILINE)


@pytest.mark.slow
def test_two_that_are_slow_only_together_are_named_together_also_after_ctrl_c(tmp_path: Path) -> None:
    project = make_package_project(tmp_path / "project", names(3), [])
    make_slow_together(project, "p00", "p02")
    words = [str(COMMAND), "bisect", "--packages", "a.txt", "b.txt", *ASKED]
    process = subprocess.Popen(
        words, cwd=project.folder, env=project.environment(), stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    assert process.stderr
    next(line for line in process.stderr if line.startswith("measuring b.txt"))
    process.send_signal(signal.SIGINT)
    outputs_of(process, 120)
    assert process.returncode == 130
    code, output, errors = bisect(project)
    assert code == 0, errors
    assert "an earlier bisect is continued" in errors
    assert "a.txt: installing" not in errors, "environments are kept"
    assert "measuring a.txt: run 1 to" not in errors
    assert "Guilty, and only together:\n  p00 1.0 → 2.0\n  p02 1.0 → 2.0\n" in output
    code, again, errors = bisect(project)
    assert (code, again, "measuring" in errors) == (0, output, False)


@pytest.mark.slow
def test_what_cannot_be_installed_apart_moves_together_and_is_said(tmp_path: Path) -> None:
    project = make_package_project(tmp_path / "project", names(5), [])
    make_wheel(project.index, "p02", "1.0", "def step(): pass\n", ["p03==1.0"])
    make_wheel(project.index, "p02", "2.0", "def step(): pass\n", ["p03==2.0", "added"])
    make_wheel(project.index, "p04", "2.0", f"def step(): sum(range({SLOW}))\n", ["p00>=2"])
    make_wheel(project.index, "added", "1.0", "")
    make_wheel(project.index, "removed", "1.0", "")
    before, after = dict.fromkeys(names(5), "1.0"), dict.fromkeys(names(5), "2.0")
    project.lists({**before, "removed": "1.0"}, {**after, "curator-bench": "0.1"})
    code, output, errors = bisect(project)
    assert code == 0, errors
    assert "7 packages differ" in errors, "one is no line of the list, but is required"
    assert "only together, as their versions need each other: p02 1.0 → 2.0, p03 1.0 → 2.0" in errors
    assert "not bisected: curator-bench: the one that is installed here measures" in errors
    assert "Guilty:\n  p04 1.0 → 2.0\n" in output
    assert "It cannot be had without these, so what they contribute is not known: p00 1.0 → 2.0\n" in output


@pytest.mark.slow
def test_an_environment_that_does_not_run_is_skipped_and_gone_round(tmp_path: Path) -> None:
    project = make_package_project(tmp_path / "project", names(3), ["p01"])
    make_wheel(project.index, "p00", "2.0", "from p02 import NEW\ndef step(): pass\n")
    make_wheel(project.index, "p02", "2.0", "NEW = True\ndef step(): pass\n")
    code, output, errors = bisect(project)
    assert code == 0, errors
    assert "only p00 as in B: 0 runs, skipped because crashed: the script ended with exit code 1" in errors
    assert "Guilty:\n  p01 1.0 → 2.0\n" in output


@pytest.mark.slow
def test_a_package_that_was_added_is_found_between_two_sessions_and_the_command_is_offered(tmp_path: Path) -> None:
    """Sessions are recorded where the packages are in the PYTHONPATH; the command of `regressions` names them."""
    project = make_package_project(tmp_path / "project", names(3), ["p01"])
    for session, versions in (("monday", {"p00": "1.0"}), ("tuesday", {"p00": "2.0", "p01": "2.0"})):
        record(project, session, versions)
    told = warm.run("curator-bench", "regressions", cwd=project.folder, env=project.environment())
    (offered,) = re.findall(r"^ +which package: curator-bench (bisect --packages .*)$", told.stdout, re.MULTILINE)
    assert offered == "bisect --packages monday tuesday --entry work --metric work_time_s"
    with closing(sqlite3.connect(project.folder / "benchmark.db")) as connection, connection:
        connection.execute("UPDATE test_run SET python_version = '3.0' WHERE session = 1")
    code, output, errors = bisect(project, "--json", sides=("monday", "tuesday"))
    assert code == 0, errors
    here = platform.python_version()
    assert f"not bisected: Python 3.0 → {here}; all is measured with {here}" in errors
    found = json.loads(output)
    assert culprits(found) == ["p01"]
    assert found["culprits"] == [{"name": "p01", "a": None, "b": "2.0"}]
    assert [one["as_in_b"] for one in found["tried"]][:2] == [[], ["p00", "p01"]]


def record(project: PackageProject, session: str, versions: dict[str, str]) -> None:
    """Record a session of eight runs with these packages."""
    place = project.folder / session
    for name, version in versions.items():
        words = ["install", "--quiet", "--no-deps", "--target", str(place), f"{name}=={version}"]
        subprocess.run([sys.executable, "-m", "pip", *words], env=project.environment(), check=True)
    run = ["benchmarks", "--benchmark", "--bench-session", session, "--bench-runs", "8"]
    done = warm.run("pytest", *run, cwd=project.folder, env=project.environment() | {"PYTHONPATH": str(place)})
    assert done.returncode == 0, done.stdout


@pytest.mark.slow
def test_equal_lists_and_lists_that_cannot_be_installed_are_refused(tmp_path: Path) -> None:
    project = make_package_project(tmp_path / "project", names(2), [])
    project.lists({"p00": "1.0"}, {"p00": "1.0"})
    code, _, errors = bisect(project)
    assert code == 1
    assert "a.txt and b.txt have the same packages: there is nothing to bisect" in errors
    project.lists({"p00": "1.0"}, {"p00": "3.0"})
    code, _, errors = bisect(project)
    assert code == 1
    assert "b.txt: uv and pip could not install what it needs" in errors


@pytest.mark.slow
def test_the_budget_ends_it_and_the_same_command_continues(tmp_path: Path) -> None:
    project = make_package_project(tmp_path / "project", names(2), ["p01"])
    code, _, errors = bisect(project, "--budget", "0.1s")
    assert (code, errors.splitlines()[-1]) == (4, "The time of --budget is over. The same command continues.")
    assert culprits(answered(project, "--budget", "2h")) == ["p01"]


@pytest.mark.parametrize(
    ("words", "sides", "problem"),
    [
        ((), ("a.txt", "none.txt"), "--packages: none.txt is no file; as a session: "),
        (("--good", "c1"), ("a.txt", "b.txt"), "--packages needs no --good, --bad, --install or --skip-build-failures"),
        (("--metric", "level"), ("a.txt", "b.txt"), "add --better less or --better more"),
        ((), ("a.txt", "wrong.txt"), "wrong.txt, line 1: found 'p00>=1', expected NAME==VERSION"),
    ],
)
def test_mistakes_are_told_before_anything_is_installed(
    tmp_path: Path, words: tuple[str, ...], sides: tuple[str, str], problem: str
) -> None:
    project = make_package_project(tmp_path / "project", names(1), [])
    (project.folder / "wrong.txt").write_text("p00>=1\n")
    code, _, errors = bisect(project, *words, sides=sides)
    assert code in (1, 2)
    assert problem in " ".join(errors.split())
    assert "installing" not in errors


def test_an_entry_with_an_interpreter_of_its_own_is_refused(tmp_path: Path) -> None:
    project = make_package_project(tmp_path / "project", names(1), [])
    matrix = project.folder / "benchmarks" / "matrix.yaml"
    matrix.write_text(matrix.read_text().replace("script: work.py", "script: work.py, python: python3"))
    code, _, errors = bisect(project)
    assert (code, "work runs with python3, whose packages are not exchanged" in errors) == (1, True)
