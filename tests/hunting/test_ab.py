"""`curator-bench ab` as its users run it: each environment is what its file says, and A against A is no different."""

from __future__ import annotations

import itertools
import json
import random
import subprocess
import sys
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from subprocess import PIPE
from typing import Any

import pytest
import warm
from click.testing import CliRunner
from scratch_repository import environment, make_repository

from curator_bench.cli import group
from curator_bench.errors import BenchError
from curator_bench.hunting.alternation import Comparison, Measured, Series
from curator_bench.hunting.comparing import CompareRequest, Ended, Found, compare
from curator_bench.hunting.environment_files import read
from curator_bench.hunting.sides import Side
from curator_bench.verdict.cases import Rules
from curator_bench.verdict.direction import Better

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


def rounds_of(told: str) -> list[str]:
    return [line.partition(":")[0] for line in told.splitlines() if ": round " in line]


@pytest.mark.slow
def test_three_environments_and_a_null_test(project: Path) -> None:
    words = ("a.yaml", "b.yaml", "c.yaml", "--null-test", "--metric", "work_time_s", "--metric", "endless_s", "--json")
    done = ab(project, *words, "--", "benchmarks")
    assert done.returncode == 1, done.stderr
    document = json.loads(done.stdout)
    assert document["not_compared"] == [{"entry": "work", "metric": "endless_s", "side": name} for name in "bc"]
    assert "Warning" not in done.stderr
    assert (project / "noise" / "used").exists()
    answers = {one["side"]: one for one in document["answers"]}
    assert {name: one["verdict"] for name, one in answers.items() if name != "a-again"} == {
        "b": "regression",
        "c": "regression",
    }
    assert answers["b"]["change"] == pytest.approx(1.0, abs=0.2)
    assert answers["c"]["change"] == pytest.approx(2.0, abs=0.3)
    assert answers["a-again"]["null_test"]
    assert answers["a-again"]["verdict"] in ("no change", "inconclusive")
    assert rounds_of(done.stderr)[:12] == ["a", "b", "c", "a-again", "a-again", "c", "b", "a", "a", "b", "c", "a-again"]
    assert (document["ended"], len(rounds_of(done.stderr))) == ("decided", 4 * document["rounds"])


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
    words = ("a.yaml", "b.yaml", "--repeat", "5", "--metric", "work_time_s", "--", "benchmarks")
    begun = killed_after(project, 4, *words)
    code = (project / "package.py").read_text()
    (project / "package.py").write_text(f"{code}\n")
    assert killed_after(project, 1, *words) == begun[:1]
    (project / "package.py").write_text(code)
    done = ab(project, *words)
    _, told, *rest = done.stderr.splitlines(keepends=True)
    assert (done.returncode, "1 round is measured" in told) == (1, True), done.stderr
    assert (rest[0], rest[1][:2]) == (begun[-1], "a:"), "the last one was killed, the ones before were not"
    assert killed_after(project, 1, *words) == begun[:1], "what is done is measured anew"


@pytest.mark.slow
def test_what_measures_nothing_is_told_after_its_first_round(project: Path) -> None:
    done = ab(project, "a.yaml", "b.yaml", "--metric", "work_times", "--", "benchmarks")
    assert (done.returncode, done.stderr.count("round")) == (2, 1)
    assert "a: there is no metric 'work_times'; nearest: work_time_s" in done.stderr
    done = ab(project, "a.yaml", "b.yaml", "--", "benchmarks", "-k", "nosuch")
    assert (done.returncode, done.stderr.splitlines()[-1]) == (
        2,
        "a: pytest benchmarks -k nosuch selects no benchmark",
    )
    (project / "pytest.ini").write_text("[pytest]\naddopts = --of-no-plugin\n")
    done = ab(project, "a.yaml", "b.yaml", "--", "benchmarks")
    assert (done.returncode, "is of a plugin that is not installed" in done.stderr) == (2, True), done.stderr
    (project / "pytest.ini").unlink()
    (project / "package.py").write_text("raise SystemExit(1)\n")
    done = ab(project, "a.yaml", "b.yaml", "--", "benchmarks")
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


WORK = Series("work", "time_s")


def compared(
    monkeypatch: pytest.MonkeyPatch, first: Measured, other: Measured, **asked: Any
) -> tuple[Found, Sequence[int]]:
    """Compare two sides with these values; return what is found, and the rounds that were measured."""
    measured = list[int]()

    def known(_: Comparison, rounds: int) -> list[Measured]:
        return [{s: {n: v for n, v in of.items() if n <= rounds} for s, of in side.items()} for side in (first, other)]

    monkeypatch.setattr(Comparison, "finished", lambda *_: 0)
    monkeypatch.setattr(Comparison, "measure_round", lambda _, number, *__: measured.append(number))
    monkeypatch.setattr(Comparison, "measured", known)
    request = CompareRequest(**{"most": 12, "metrics": (), "better": None, "min_effect": 0.03, "gates": {}, **asked})
    sides = [Side(name, "python", (), Path()) for name in "ab"]
    return compare(Comparison(sides, "s", "x.db"), request, lambda _: None), measured


def steady(level: float, rounds: Iterable[int] = range(1, 31)) -> dict[int, float]:
    """Values that hardly differ."""
    return {number: level * (1 + 0.001 * (number % 3)) for number in rounds}


def test_measuring_ends_when_each_metric_is_decided(monkeypatch: pytest.MonkeyPatch) -> None:
    found, measured = compared(monkeypatch, {WORK: steady(1.0)}, {WORK: steady(1.1)})
    assert (found.ended, [one.judgement.says for one in found.answers]) == (Ended.DECIDED, ["regression"])
    assert list(measured) == list(range(1, found.rounds + 1))
    assert found.rounds < 8


def test_measuring_ends_after_the_most_rounds_and_when_the_time_is_up(monkeypatch: pytest.MonkeyPatch) -> None:
    chance = random.Random(1)
    wide = [{WORK: {n: chance.lognormvariate(level, 0.02) for n in range(1, 31)}} for level in (0.0, 0.035)]
    found, measured = compared(monkeypatch, *wide, most=8)
    assert (found.ended, len(measured)) == (Ended.ROUNDS, 8)
    clock = itertools.count(0.0, 10.0)
    monkeypatch.setattr(time, "monotonic", lambda: next(clock))
    found, measured = compared(monkeypatch, *wide, deadline=105.0)
    assert (found.ended, len(measured)) == (Ended.BUDGET, 5), "no round is begun that would end too late"


def test_a_gate_decides_what_is_compared_and_by_which_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    beside = Series("work", "other_s")
    sides = [{WORK: steady(level), beside: steady(level)} for level in (1.0, 1.1)]
    gates = {WORK: Rules(Better.LESS, 0.2)}
    found, _ = compared(monkeypatch, *sides, gates=gates)
    assert [(one.series, one.judgement.says) for one in found.answers] == [(WORK, "no change")]
    without = Series("load", "time_s")
    more = [{**side, without: steady(level)} for side, level in zip(sides, (1.0, 1.1), strict=True)]
    found, _ = compared(monkeypatch, *more, gates=gates)
    said = {one.series: one.judgement.says for one in found.answers}
    assert said == {WORK: "no change", without: "regression"}, "without gates, all is compared"
    found, _ = compared(monkeypatch, *sides, gates=gates, metrics=("other_s",))
    assert [(one.series, one.judgement.says) for one in found.answers] == [(beside, "regression")]


def test_the_time_of_the_whole_run_counts_only_where_nothing_else_does(monkeypatch: pytest.MonkeyPatch) -> None:
    """A Python benchmark has it in a column, beside what it measures itself: twice the same, or noise."""
    whole, own = Series("work", "duration"), Series("work", "exec_time_s")
    sides = [{whole: steady(level), own: steady(level)} for level in (1.0, 1.1)]
    found, _ = compared(monkeypatch, *sides)
    assert [one.series for one in found.answers] == [own]
    found, _ = compared(monkeypatch, *({whole: side[whole]} for side in sides))
    assert [one.series for one in found.answers] == [whole]
    found, _ = compared(monkeypatch, *sides, metrics=("duration",))
    assert [one.series for one in found.answers] == [whole], "if it is asked for"


def test_only_rounds_that_both_have_are_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    first, other = steady(1.0) | {1: 9.0}, steady(2.0, range(2, 31))
    found, _ = compared(monkeypatch, {WORK: first}, {WORK: other})
    assert found.answers[0].judgement.change == pytest.approx(1.0, abs=0.01)


def test_what_only_a_has_measured_is_no_success(monkeypatch: pytest.MonkeyPatch) -> None:
    """As when a benchmark crashed in each round of B; what only B measures is told, and no reason to fail."""
    crashed, added = Series("crashed", "time_s"), Series("added", "time_s")
    both = {WORK: steady(1.0)}
    found, _ = compared(monkeypatch, {**both, crashed: steady(1.0)}, {**both, added: steady(1.0)})
    assert (set(found.missing), found.is_broken) == ({(crashed, "b"), (added, "b")}, True)
    found, _ = compared(monkeypatch, both, {**both, added: steady(1.0)})
    assert (found.missing, found.is_broken) == (((added, "b"),), False)


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (["main"], "name two commits or environment files"),
        (["main", "a.yaml"], "a.yaml is an environment file: name only commits, or only environment files"),
        (["main", "b", "--budget", "20"], "found '20', expected a time (90s, 20m or 1.5h)"),
        (["main", "b", "--budget", "0s"], "found '0s', expected a time (90s, 20m or 1.5h)"),
        (["main", "b", "--min-effect", "5"], "found '5', expected a share (3% or 0.03)"),
    ],
)
def test_what_cannot_be_compared_is_refused(words: list[str], problem: str) -> None:
    result = CliRunner().invoke(group, ["ab", *words, "--db", "x.db"])
    assert result.exit_code == 2
    assert problem in " ".join(result.output.split())
