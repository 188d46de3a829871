"""Jobs as a CI system runs them, from its YAML, and a small project of somebody else's that they are for."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import sysconfig
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml
from hung_processes import outputs_of
from plugins_of_others import WITHOUT_OTHERS
from scratch_repository import ScratchRepository
from sharing.shared_records import command

ROOT = Path(__file__).parents[2]
PROGRAMS = Path(sys.executable).parent
GITHUB = [f".github/workflows/bench-{name}.yml" for name in ("nightly", "gate", "ab")]
GITLAB = [".gitlab/bench.yml"]
PROJECT = """
[build-system]
requires = ["hatchling"]
build-backend = "hatchling.build"

[project]
name = "parcels"
version = "1.0"
"""
PACKAGE = '''"""Packs parcels. Packing takes as long as its clock says."""

SECONDS = 0.05


def pack(things):
    return [things[at : at + 3] for at in range(0, len(things), 3)]
'''
UNIT_TEST = """
from parcels import pack


def test_three_fit_into_a_parcel():
    assert pack("abcd") == ["abc", "d"]
"""
BENCHMARK = """
from parcels import pack


def test_packing(benchmark_time):
    with benchmark_time:
        pack(list(range(100_000)))
"""
MATRIX = """# matrix.yaml
ray: false
entries:
  - name: clock
    script: clock.py
    requirements: [{metric: pack_time_s, max_regression: 10%}]
"""
SCRIPT = """
import json
import random
import sys
from pathlib import Path

from parcels import SECONDS

results = Path(sys.argv[sys.argv.index("--benchmark-results-path") + 1])
(results / "params.json").write_text("{}")
(results / "metrics.json").write_text(json.dumps({"pack_time_s": SECONDS * random.gauss(1.0, 0.01)}))
"""
GH = """#!/bin/sh
# The command line of GitHub: the artifacts of earlier nights are folders in $NIGHTS.
case "$1 $2" in
    "run list") ls -r "$NIGHTS" ;;
    "run download") cp -r "$NIGHTS/$3" record ;;
esac
"""


def init(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return command("init", "--ci", *words, cwd=folder)


def make_project(folder: Path) -> ScratchRepository:
    """A package, its unit test and two benchmarks."""
    repository = ScratchRepository(folder)
    for name, text in {
        "pyproject.toml": PROJECT,
        "parcels/__init__.py": PACKAGE,
        "tests/test_parcels.py": UNIT_TEST,
        "benchmarks/test_parcels.py": BENCHMARK,
        "benchmarks/matrix.yaml": MATRIX,
        "benchmarks/clock.py": SCRIPT,
        ".gitignore": "__pycache__/\n",
    }.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    repository.git("init", "--quiet")
    commit(repository, "Pack parcels")
    return repository


def commit(repository: ScratchRepository, message: str) -> str:
    repository.git("add", "--all")
    repository.git("commit", "--quiet", "--message", message)
    return repository.git("rev-parse", "HEAD")


def make_slower(repository: ScratchRepository) -> None:
    file = repository.folder / "parcels" / "__init__.py"
    file.write_text(file.read_text().replace("0.05", "0.08"))


def install_wheel(folder: Path) -> Path:
    """An environment with the wheel of this clone, as a user has it; what it needs is that of here. Returns its bin."""
    run(sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", str(folder / "dist"), cwd=ROOT)
    run(sys.executable, "-m", "venv", "--without-pip", str(folder / "venv"), cwd=folder)
    python = folder / "venv" / "bin" / "python"
    (site,) = (folder / "venv").glob("lib/python*/site-packages")
    (site / "zz_here.pth").write_text(sysconfig.get_path("purelib") + "\n")
    (wheel,) = (folder / "dist").glob("*.whl")
    words = ("-m", "pip", "install", "--quiet", "--no-index", "--no-deps", "--ignore-installed", "--no-compile")
    run(str(python), *words, str(wheel), cwd=folder)
    (python.parent / "gh").write_text(GH)
    (python.parent / "gh").chmod(0o755)
    return python.parent


def scripts(checkout: Path) -> Iterator[str]:
    """What the jobs of all files run."""
    for file in (*checkout.glob(".github/workflows/*.yml"), *checkout.glob(".gitlab/*.yml")):
        told = yaml.safe_load(file.read_text())
        for job in told.get("jobs", told).values():
            yield from (step["run"] for step in job.get("steps", ()) if "run" in step)
            yield "\n".join([*job.get("before_script", ()), *job.get("script", ())])


def run(*words: str, cwd: Path) -> str:
    done = subprocess.run(words, cwd=cwd, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@dataclass(frozen=True)
class Ran:
    """A job that has run."""

    code: int
    output: str


@dataclass(frozen=True)
class Machine:
    """A machine of a CI system, with the environment of a job on it."""

    programs: Path
    folder: Path
    """Scratch of the machine."""
    checkout: Path
    variables: Mapping[str, str] = field(default_factory=dict)

    def github(self, workflow: str, job: str, context: Mapping[str, str] | None = None) -> Ran:
        """Run the steps of a job that are commands; those that are actions are left out."""
        told = yaml.safe_load((self.checkout / ".github" / "workflows" / f"{workflow}.yml").read_text())
        asked = told["jobs"][job]
        code, output = 0, ""
        for step in asked["steps"]:
            condition = str(step.get("if", ""))
            if "run" not in step or (code and "always()" not in condition) or not self._holds(condition, context or {}):
                continue
            assert "${{" not in step["run"], "what others write is no part of a command"
            given = {**asked.get("env", {}), **step.get("env", {})}
            ended = self._bash(step["run"], {name: _filled(text, context or {}) for name, text in given.items()})
            code, output = code or ended.code, output + ended.output
        return Ran(code, output)

    def gitlab(self, job: str, **variables: str) -> Ran:
        """Run the script of a job."""
        told = yaml.safe_load((self.checkout / ".gitlab" / "bench.yml").read_text())
        asked = {**told.get(told[job].get("extends", ""), {}), **told[job]}
        return self._bash(
            "\n".join([*asked.get("before_script", ()), *asked["script"]]), {**asked.get("variables", {}), **variables}
        )

    def _holds(self, condition: str, context: Mapping[str, str]) -> bool:
        """True if the files that a condition names are there, and variables have the values that it names."""
        has_files = all((self.checkout / name).exists() for name in re.findall(r"hashFiles\('(.+?)'\)", condition))
        variables = re.findall(r"(vars\.\w+) == '(.*?)'", condition)
        return has_files and all(context.get(name, "") == value for name, value in variables)

    def _bash(self, script: str, given: Mapping[str, str]) -> Ran:
        file = self.folder / "step.sh"
        file.write_text(script)
        with subprocess.Popen(
            ["bash", "--noprofile", "--norc", "-eo", "pipefail", str(file)],
            cwd=self.checkout,
            env={**dict(self._environment()), **given},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        ) as process:
            output, _ = outputs_of(process, 300)
        return Ran(process.returncode, output)

    def _environment(self) -> Iterator[tuple[str, str]]:
        yield "PATH", os.pathsep.join([str(self.programs), str(Path(sys.executable).parent), os.environ["PATH"]])
        yield "HOME", str(self.folder)
        yield "LANG", "C.UTF-8"
        yield "RUNNER_TEMP", str(self.folder)
        yield "NIGHTS", str(self.folder / "nights")
        yield "GITHUB_STEP_SUMMARY", str(self.folder / "summary.md")
        yield "PYTEST_ADDOPTS", " ".join(WITHOUT_OTHERS)
        yield "CURATOR_BENCH_DISTURBED", "count"
        # Everything is here already, and what builds the project is too; 0 is how pip spells it in a variable.
        yield from {"PIP_NO_INDEX": "1", "PIP_NO_BUILD_ISOLATION": "0", "PIP_DISABLE_PIP_VERSION_CHECK": "1"}.items()
        yield from {"UV_OFFLINE": "1", "UV_NO_BUILD_ISOLATION": "1"}.items()
        yield from self.variables.items()


def _filled(text: Any, context: Mapping[str, str]) -> str:
    return re.sub(r"\$\{\{(.+?)\}\}", lambda found: _value(found[1], context), str(text))


def _value(expression: str, context: Mapping[str, str]) -> str:
    """The value of `a || b || 'text'`."""
    for term in map(str.strip, expression.split("||")):
        if value := term.strip("'") if term.startswith("'") else context.get(term, ""):
            return value
    return ""
