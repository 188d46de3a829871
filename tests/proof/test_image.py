"""The steps of the Dockerfile, replayed for the CPU image in a fresh folder: its RUN lines are run by a shell, with the
folder in place of /. What only root on a Debian may do (apt-get, useradd) is left to stand-ins; the rest is real."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import sysconfig
from dataclasses import dataclass, field
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
IS_FULL = os.environ.get("CURATOR_BENCH_PROOF") == "full"
STEP = re.compile(r"^([A-Z]+) +((?:.*\\\n)*.*)$", re.MULTILINE)
SETTING = re.compile(r"(\w+)=((?:\\\s|\S)*)")
STAND_INS = {"apt-get": "", "useradd": 'while [ "$1" != --home-dir ]; do shift; done\nexec mkdir -p "$2"\n'}


def steps() -> list[tuple[str, str]]:
    text = re.sub(r"^#.*\n", "", (ROOT / "Dockerfile").read_text(), flags=re.MULTILINE)
    return [(name, arguments.replace("\\\n", " ")) for name, arguments in STEP.findall(text)]


@dataclass
class Replay:
    """A file system that begins empty, and the settings of the steps so far. Stages share it."""

    root: Path
    extras: str
    variables: dict[str, str] = field(default_factory=dict)
    directory: str = "/"
    user: str = "root"
    entry_point: str = ""
    said: str = ""

    def here(self, text: str) -> str:
        return re.sub(r"(?<![\w./-])/(?=opt|home|var)", f"{self.root}/", text)

    def environment(self) -> dict[str, str]:
        programs = self.root / "bin"
        kept = {name: value for name, value in os.environ.items() if name.startswith("PIP_") or name == "TMPDIR"}
        base = kept | {"PATH": f"{programs}:{Path(sys.base_prefix, 'bin')}:/usr/bin:/bin", "PIP_NO_COMPILE": "1"}
        return base | {name: self.here(value).replace("$PATH", base["PATH"]) for name, value in self.variables.items()}

    def step(self, name: str, arguments: str) -> None:
        match name:
            case "FROM":
                self.directory, self.user = "/", "root"
            case "ARG" | "ENV":
                self.variables |= dict(SETTING.findall(arguments))
                self.variables |= {"EXTRAS": self.extras} if "EXTRAS" in self.variables else {}
            case "WORKDIR":
                self.directory = arguments
                Path(self.here(arguments)).mkdir(parents=True, exist_ok=True)
            case "USER":
                self.user = arguments
            case "ENTRYPOINT":
                self.entry_point = arguments
            case "COPY":
                self.copy(arguments.split())
            case "RUN":
                self.run(["/bin/sh", "-c", self.here(arguments)])
            case _:
                pytest.fail(f"the replay does not know the step {name}")

    def copy(self, words: list[str]) -> None:
        if words[0].startswith("--from="):
            assert words[1] == words[2], "an environment runs only where it was made"
            return
        for word in words[:-1]:
            assert f"!{word}" in (ROOT / ".dockerignore").read_text().splitlines()
            target = Path(self.here(self.directory), words[-1])
            if (ROOT / word).is_dir():
                shutil.copytree(ROOT / word, target, ignore=shutil.ignore_patterns("__pycache__"))
            else:
                shutil.copy(ROOT / word, target)

    def run(self, command: list[str], folder: Path | None = None) -> str:
        outcome = subprocess.run(
            command,
            cwd=folder or Path(self.here(self.directory)) if self.directory != "/" or folder else self.root,
            env=self.environment(),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=900,
            check=False,
        )
        assert outcome.returncode == 0, f"{command[-1]}\n{outcome.stdout[-4000:]}"
        return outcome.stdout


@pytest.fixture
def replay(tmp_path: Path) -> Replay:
    programs = tmp_path / "bin"
    programs.mkdir()
    for name, text in STAND_INS.items():
        (programs / name).write_text(f"#!/bin/sh\n{text}")
        (programs / name).chmod(0o755)
    return Replay(tmp_path, extras="data,postgres,report,xdist" if IS_FULL else "")


def lend_packages(replay: Replay) -> None:
    """Gives the image's environment the packages these tests run with, behind its own."""
    folder = next((replay.root / "opt" / "venv" / "lib").glob("python3*/site-packages"))
    (folder / "lent.pth").write_text(sysconfig.get_path("purelib"))
    program = replay.root / "opt" / "venv" / "bin" / "pytest"
    program.write_text(f'#!/bin/sh\nexec {program.with_name("python")} -m pytest "$@"\n')
    program.chmod(0o755)


def test_the_image_is_built_and_runs_benchmarks(replay: Replay) -> None:
    for name, arguments in steps():
        # What the package needs is what these tests run with; downloading it once more is for `make proof`.
        replay.step(name, arguments if IS_FULL else arguments.replace("pip install", "pip install --no-deps"))
    if not IS_FULL:
        lend_packages(replay)
    assert (replay.user.isdigit(), replay.entry_point) == (True, '["pytest"]')
    assert replay.user != "0"

    folder = replay.root / "benchmarks"
    folder.mkdir()
    replay.run(["sh", "-c", "curator-bench init"], folder)
    source = replay.run(["sh", "-c", "python -c 'import curator_bench; print(curator_bench.__file__)'"], folder)
    assert source.startswith(str(replay.root / "opt" / "venv"))
    paths = 'paths: [{name: data, host_path: /not/here, container_path: /datasets}]\nenv: {DATA: "{data}"}\n'
    matrix = folder / "matrix.yaml"
    matrix.write_text(paths + matrix.read_text())
    assert "2 passed" in replay.run(["sh", "-c", "pytest -p no:cacheprovider -p no:benchmark"], folder)
    assert "DATA=/datasets" in replay.run(["sh", "-c", "curator-bench command matrix.yaml 'word_count[2]'"], folder)


def test_the_steps_leave_out_what_an_image_must_not_have() -> None:
    text = (ROOT / "Dockerfile").read_text()
    assert "://" not in text
    assert re.search(r"^ARG BASE_IMAGE=[\w:.-]+$", text, re.MULTILINE)
    assert all(re.match(r"\$\{BASE_IMAGE\} AS base|base\b", arguments) for name, arguments in steps() if name == "FROM")
