"""`curator-bench ab` as its users run it: each environment is what its file says, and A against A is no different."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from subprocess import PIPE

import pytest
import warm
from click.testing import CliRunner
from scratch_repository import environment, make_repository

from curator_bench.cli import group
from curator_bench.errors import BenchError
from curator_bench.hunting.alternation import Comparison, Series, answers
from curator_bench.hunting.environments import read

COMMAND = Path(sys.executable).with_name("curator-bench")
PACKAGE = """
import os

def work():
    try:
        from slower import FACTOR
    except ImportError:
        FACTOR = 1.0
    return 0.05 * FACTOR * float(os.environ.get("SLOWER", "1"))
"""
SLOWER = """
[build-system]
requires = ["hatchling"]
build-backend = "hatchling.build"
[project]
name = "slower"
version = "1"
[tool.hatch.build.targets.wheel]
only-include = ["slower.py"]
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """Whose benchmark takes twice as long in b, which has an interpreter of its own, and three times with a package."""
    folder = make_repository(tmp_path / "project", seed=1, slower_at=None, commits=1).folder
    (folder / "package.py").write_text(PACKAGE)
    script = folder / "benchmarks" / "work.py"
    script.write_text(script.read_text().replace('"level": 1', '"endless_s": float("inf")'))
    (tmp_path / "slower").mkdir()
    (tmp_path / "slower" / "pyproject.toml").write_text(SLOWER)
    (tmp_path / "slower" / "slower.py").write_text("FACTOR = 3.0\n")
    (folder / "a.yaml").write_text("{}\n")
    (folder / "b.yaml").write_text("python: noise/python\nenv: {SLOWER: 2}\nmatrix: overlay.yaml\n")
    python = folder / "noise" / "python"
    python.write_text(f'#!/bin/sh\ntouch "{folder}/noise/used"\nexec "{sys.executable}" "$@"\n')
    python.chmod(0o755)
    (folder / "overlay.yaml").write_text("entries: [{name: work, repeat: 2}]\n")
    (folder / "c.yaml").write_text(f"requirements: ['--no-build-isolation', '--no-index', '{tmp_path / 'slower'}']\n")
    return folder


def ab(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return warm.run("curator-bench", "ab", *words, cwd=folder, env=environment(), within_s=500)


@pytest.mark.slow
def test_three_environments_and_a_null_test(project: Path) -> None:
    metrics = ("--metric", "work_time_s", "--metric", "endless_s")
    done = ab(project, "a.yaml", "b.yaml", "c.yaml", "--repeat", "3", *metrics, "--fail", "--json", "--", "benchmarks")
    assert done.returncode == 1, done.stderr
    document = json.loads(done.stdout)
    assert document["not_compared"] == [{"entry": "work", "metric": "endless_s", "environment": name} for name in "bc"]
    assert "Warning" not in done.stderr
    assert (project / "noise" / "used").exists()
    answers = {one["environment"]: one for one in document["answers"]}
    assert {name: one["verdict"] for name, one in answers.items() if name != "a-again"} == {
        "b": "regression",
        "c": "regression",
    }
    assert answers["b"]["change"] == pytest.approx(1.0, abs=0.2)
    assert answers["c"]["change"] == pytest.approx(2.0, abs=0.3)
    assert answers["a-again"]["null_test"]
    assert answers["a-again"]["verdict"] in ("no change", "inconclusive")
    rounds = [line.partition(":")[0] for line in done.stderr.splitlines() if ": round " in line]
    assert rounds == ["a", "b", "c", "a-again", "a-again", "c", "b", "a", "a", "b", "c", "a-again"]


def killed_after(project: Path, lines: int, *words: str) -> list[str]:
    """Kill it after so many lines about rounds; returns them."""
    with subprocess.Popen([COMMAND, "ab", *words], cwd=project, env=environment(), stderr=PIPE, text=True) as process:
        assert process.stderr
        assert process.stderr.readline().startswith("Database: ")
        said = [process.stderr.readline() for _ in range(lines)]
        process.kill()
    return said


@pytest.mark.slow
def test_what_was_interrupted_goes_on_unless_the_code_is_another(project: Path) -> None:
    words = ("a.yaml", "b.yaml", "--repeat", "3", "--metric", "work_time_s", "--", "benchmarks")
    begun = killed_after(project, 3, *words)
    code = (project / "package.py").read_text()
    (project / "package.py").write_text(f"{code}\n")
    assert killed_after(project, 1, *words) == begun[:1]
    (project / "package.py").write_text(code)
    done = ab(project, *words)
    _, told, *rest = done.stderr.splitlines(keepends=True)
    assert (done.returncode, "2 of 9 rounds are measured" in told) == (0, True), done.stderr
    assert (len(rest), rest[0]) == (7, begun[-1])
    assert killed_after(project, 1, *words) == begun[:1], "what is done is measured anew"


@pytest.mark.slow
def test_what_measures_nothing_is_told_after_its_first_round(project: Path) -> None:
    done = ab(project, "a.yaml", "b.yaml", "--metric", "work_times", "--fail", "--", "benchmarks")
    assert (done.returncode, done.stderr.count("round")) == (2, 1)
    assert "a: there is no metric 'work_times'; nearest: work_time_s" in done.stderr
    (project / "package.py").write_text("raise SystemExit(1)\n")
    done = ab(project, "a.yaml", "b.yaml", "--fail", "--", "benchmarks")
    assert (done.returncode, done.stderr.count("round")) == (2, 1)
    assert "a: nothing was measured: work: crashed" in done.stderr


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("pyton: python3", "pyton: no such key; did you mean python?"),
        ("python: no-such-python", "no-such-python is not a program"),
        ("requirements: none.txt", "none.txt: no such file"),
        ("env: [A]", "env: found ['A'], expected variables with their values"),
        ("- a", "found a list, expected keys of"),
        ("name: a b", "name: found 'a b'"),
        ("env: {A=B: x}", "env: 'A=B' can be no variable"),
        ('env: {A: "\\0"}', "env: A: a variable cannot contain a zero byte"),
        ("env: [1,\n", ", line 2: not YAML: "),
    ],
)
def test_mistakes_in_a_file_are_named(tmp_path: Path, text: str, problem: str) -> None:
    file = tmp_path / "a.yaml"
    file.write_text(text)
    with pytest.raises(BenchError) as raised:
        read(file)
    assert problem in str(raised.value)
    assert str(raised.value).startswith(str(file))
    assert str(raised.value).count("\n") == 0


def test_only_rounds_that_both_have_are_compared() -> None:
    series, other = Series("work", "time_s"), Series("load", "time_s")
    first = {series: {1: 9.0, 2: 2.0, 3: 2.0, 4: 2.0}, other: {1: 1.0, 2: 1.0, 3: 1.0}}
    (found,) = answers(
        first,
        {series: {2: 4.0, 3: 4.0, 4: 4.0, 5: 9.0}, other: {1: 1.0, 2: 1.0}},
        "b",
        {series: None, other: None},
        0.03,
    )
    assert found.series == series
    assert found.judgement.change == pytest.approx(1.0)


def test_what_only_a_has_measured_is_no_success(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As when a benchmark crashed in each round of B; what only B measures is told, and no reason to fail."""
    rounds = dict.fromkeys(range(1, 4), 1.0)
    sound, crashed, added = (Series(name, "time_s") for name in ("sound", "crashed", "added"))
    sides = [{sound: rounds, crashed: rounds}, {sound: rounds, added: rounds}, {sound: rounds, crashed: rounds}]
    monkeypatch.setattr(Comparison, "measure", lambda *_: None)
    monkeypatch.chdir(tmp_path)
    for name in ("a.yaml", "b.yaml"):
        Path(name).write_text("{}")
    for shown, code in ((sides, 2), ([{sound: rounds}, sides[1], {sound: rounds}], 0)):
        monkeypatch.setattr(Comparison, "measured", lambda *_, found=shown: found)
        result = CliRunner().invoke(group, ["ab", "a.yaml", "b.yaml", "--fail", "--db", "x.db"])
        assert result.exit_code == code, result.output
        assert ("not compared: crashed time_s" in result.output) == (code == 2)
        assert "not compared: added time_s: fewer than 3 rounds of both a and b measured a number" in result.output
