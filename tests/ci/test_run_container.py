"""ci/run.sh and ci/build_docker.sh hand docker what they promise. A stand-in notes what it is called with: no engine
runs here."""

from __future__ import annotations

import json
import os
import pty
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import warm

ROOT = Path(__file__).parents[2]
VERSION = Path("src", "curator_bench", "package.py")
STAND_IN = """#!{python}
import json, os, pathlib, sys
if sys.argv[1:3] == ["image", "inspect"]:
    if "not-built" in sys.argv[-1]:
        sys.exit("Error: No such image")
    print("curator-bench@sha256:5eed")
else:
    notes = pathlib.Path({notes!r})
    notes.write_text(json.dumps({{"words": sys.argv[1:], "token": os.environ.get("SLACK_BOT_TOKEN")}}))
"""
MATRIX = """
results_dir: {outside}/results
paths:
  - {{name: data, host_path: "{outside}/data", container_path: /datasets}}
  - {{name: models, host_path: "{outside}/models"}}
sinks: [{{name: slack, token: "${{SLACK_BOT_TOKEN}}", channel: "${{SLACK_CHANNEL:-${{FALLBACK_CHANNEL:-general}}}}"}}]
entries: [{{name: removal, script: removal.py, args: "--input {{data}}/cc --model {{models}}"}}]
"""
PLAIN = "entries: [{name: plain, script: plain.py}]\n"


@dataclass
class Bench:
    """A folder with benchmarks, one beside it with data, and a docker that only takes notes."""

    folder: Path
    outside: Path
    programs: Path
    notes: Path
    clone: Path
    """A clone without an environment: the scripts take `curator-bench` from PATH, which is quicker here."""

    def environment(self, extra: Mapping[str, str]) -> dict[str, str]:
        kept = {name: os.environ[name] for name in ("HOME", "LANG", "TMPDIR", "PYTHONPATH") if name in os.environ}
        return kept | {"PATH": f"{self.programs}:{warm.programs()}:{os.environ['PATH']}", **extra}

    def call(self, script: str, *words: str, **environment: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [self.clone / "ci" / script, *words],
            cwd=self.folder,
            env=self.environment(environment),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )

    def noted(self) -> Any:
        return json.loads(self.notes.read_text())

    def run(self, *words: str, **environment: str) -> list[str]:
        """The words docker was called with."""
        outcome = self.call("run.sh", *words, **environment)
        assert outcome.returncode == 0, outcome.stderr
        called: list[str] = self.noted()["words"]
        return called


@pytest.fixture(scope="module")
def clone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    clone = tmp_path_factory.mktemp("clone")
    shutil.copytree(ROOT / "ci", clone / "ci")
    (clone / VERSION).parent.mkdir(parents=True)
    shutil.copy(ROOT / VERSION, clone / VERSION)
    return clone


@pytest.fixture
def bench(tmp_path: Path, clone: Path) -> Bench:
    notes = tmp_path / "notes.json"
    bench = Bench(tmp_path / "my benchmarks", tmp_path / "elsewhere", tmp_path / "bin", notes, clone)
    for folder in (bench.folder, bench.outside, bench.programs):
        folder.mkdir()
    (bench.folder / "matrix.yaml").write_text(MATRIX.format(outside=bench.outside))
    (bench.folder / "plain.yaml").write_text(PLAIN)
    (bench.outside / "far_matrix.yaml").write_text(PLAIN.replace("plain", "far"))
    moved = f'paths: [{{name: data, host_path: "{bench.outside}/other", container_path: /datasets}}]\n'
    (bench.outside / "machine.yaml").write_text(moved)
    checkout = bench.outside / "Curator"
    for name in ("nemo_curator", "benchmarking"):
        (checkout / name).mkdir(parents=True)
    (checkout / "pyproject.toml").touch()
    nightly = 'entries: [{name: alm, script: alm.py, args: "--input {curator_repo_dir}/tests/alm.jsonl"}]\n'
    (checkout / "benchmarking" / "nightly.yaml").write_text(nightly)
    for name in ("docker", "podman"):
        (bench.programs / name).write_text(STAND_IN.format(python=sys.executable, notes=str(bench.notes)))
        (bench.programs / name).chmod(0o755)
    return bench


@dataclass(frozen=True)
class Case:
    """What ci/run.sh is given, and what stands (or does not) in the line it composes. {here}, {outside}: folders."""

    words: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict)
    has: tuple[str, ...] = ()
    has_not: tuple[str, ...] = ()
    ends: tuple[str, ...] = ()


MOUNTS = (
    "--volume={here}:{here}",
    "--workdir={here}",
    "--volume={outside}/data:/datasets",
    "--volume={outside}/models:/MOUNT{outside}/models",
    "--volume={outside}/results:{outside}/results",
)
IMAGE = "curator-bench:latest"
CASES = {
    "nothing at all": Case(has=MOUNTS, ends=(IMAGE,)),
    "a matrix": Case(("matrix.yaml",), has=MOUNTS, ends=(IMAGE, "matrix.yaml")),
    "one entry": Case(("matrix.yaml::removal", "-x"), has=MOUNTS, ends=(IMAGE, "matrix.yaml::removal", "-x")),
    "a folder": Case((".",), has=MOUNTS, ends=(IMAGE, ".")),
    "a matrix without paths": Case(("plain.yaml",), has=MOUNTS[:2], has_not=MOUNTS[2:]),
    "a matrix elsewhere": Case(("{outside}/far_matrix.yaml",), has=("--volume={outside}:{outside}",)),
    "an overlay elsewhere": Case(
        ("matrix.yaml", "--bench-matrix", "{outside}/machine.yaml"),
        has=("--volume={outside}/other:/datasets", "--volume={outside}:{outside}"),
        has_not=("--volume={outside}/data:/datasets",),
        ends=(IMAGE, "matrix.yaml", "--bench-matrix", "{outside}/machine.yaml"),
    ),
    "an overlay, in one word": Case(
        ("matrix.yaml", "--bench-matrix={outside}/machine.yaml"), has=("--volume={outside}/other:/datasets",)
    ),
    "results elsewhere": Case(
        ("plain.yaml", "--bench-results", "{outside}/new"), has=("--volume={outside}/new:{outside}/new",)
    ),
    "a database elsewhere": Case(
        ("plain.yaml", "--benchmark-db={outside}/db/b.db"), has=("--volume={outside}/db:{outside}/db",)
    ),
    "a database on a server": Case(
        ("plain.yaml",), {"CURATOR_BENCH_DB": "postgresql://bench:hunter22@db/bench"}, has=("--env=CURATOR_BENCH_DB",)
    ),
    "an expression that is a folder's name": Case(("-m", ".", "-k", "a and b"), has=MOUNTS, ends=("-k", "a and b")),
    "no GPUs": Case(("plain.yaml",), {"GPUS": "none"}, has_not=("--gpus=all",)),
    "all GPUs, another image": Case(
        ("plain.yaml",), {"GPUS": "all", "IMAGE": "mine:cuda"}, has=("--gpus=all",), ends=("mine:cuda", "plain.yaml")
    ),
    "two GPUs": Case(("plain.yaml",), {"GPUS": "0,2"}, has=('--gpus="device=0,2"',)),
    "a GPU as docker names it": Case(("plain.yaml",), {"GPUS": '"device=1"'}, has=('--gpus="device=1"',)),
    "a command line in several words": Case(("--shell", "ls", "-l"), has=(), ends=(IMAGE, "-c", "ls -l")),
    "memory": Case(
        ("plain.yaml",),
        {"MEMORY": "4g", "SHM_SIZE": "1g"},
        has=("--memory=4g", "--memory-swap=4g", "--shm-size=1g"),
    ),
    "tokens": Case(
        ("matrix.yaml",),
        {"SLACK_BOT_TOKEN": "xoxb-hunter22", "FALLBACK_CHANNEL": "night"},
        has=("--env=SLACK_BOT_TOKEN", "--env=FALLBACK_CHANNEL"),
        has_not=("--env=SLACK_CHANNEL",),
    ),
    "further variables": Case(
        ("plain.yaml",),
        {"PASS_ENV": "HF_TOKEN NOT_SET", "HF_TOKEN": "hunter22"},
        has=("--env=HF_TOKEN",),
        has_not=("--env=NOT_SET",),
    ),
    "the source of the clone": Case(
        ("--use-host-source", "plain.yaml"),
        {"CURATOR_REPO_DIR": "{outside}"},
        has=(
            "--volume={clone}:{clone}",
            "--volume={outside}:{outside}",
            "--env=CURATOR_REPO_DIR",
            "--env=PYTHONPATH={clone}/src:{outside}",
        ),
        ends=(IMAGE, "plain.yaml"),
    ),
    "a shell": Case(("--shell",), has=("--entrypoint=bash", *MOUNTS), ends=(IMAGE,)),
    "a command line": Case(
        ("plain.yaml", "--shell", "ray --version; nproc"),
        has=("--entrypoint=bash",),
        ends=(IMAGE, "-c", "ray --version; nproc"),
    ),
    "the options of the older container script": Case(
        ("--config", "matrix.yaml", "--config={outside}/machine.yaml", "--session-name", "night", "--list"),
        has=("--entrypoint=curator-bench", "--volume={outside}/other:/datasets", "--volume={outside}:{outside}"),
        has_not=("--volume={outside}/data:/datasets", "--gpus=all"),
        ends=(
            IMAGE,
            "run",
            "--config=matrix.yaml",
            "--config={outside}/machine.yaml",
            "--session-name",
            "night",
            "--list",
        ),
    ),
    "the older script, with its GPUs and image": Case(
        ("--config", "plain.yaml"),
        {"GPUS": "device=1", "CURATOR_BENCHMARKING_IMAGE": "theirs:latest"},
        has=('--gpus="device=1"', "--env=NVIDIA_DRIVER_CAPABILITIES=compute,utility,video"),
        ends=("theirs:latest", "run", "--config=plain.yaml"),
    ),
    "NeMo Curator of the host": Case(
        ("--use-host-curator", "--config", "{outside}/Curator/benchmarking/nightly.yaml"),
        has=(
            "--volume={outside}/Curator:{outside}/Curator",
            "--env=PYTHONPATH={outside}/Curator",
            "--env=CURATOR_REPO_DIR",
        ),
    ),
    "NeMo Curator of the host, named": Case(
        ("--use-host-curator", "--config", "plain.yaml"),
        {"HOST_CURATOR_DIR": "{outside}/Curator"},
        has=("--env=PYTHONPATH={outside}/Curator",),
    ),
    "only the benchmarks of the host": Case(
        ("--use-host-curator-benchmarking", "--config", "{outside}/Curator/benchmarking/nightly.yaml"),
        has=("--volume={outside}/Curator:{outside}/Curator", "--env=CURATOR_REPO_DIR"),
        has_not=("--env=PYTHONPATH={outside}/Curator",),
    ),
    "a matrix that reads files of its source tree": Case(
        ("{outside}/Curator/benchmarking/nightly.yaml",),
        has=("--volume={outside}/Curator:{outside}/Curator",),
    ),
    "a shell with the paths of a matrix": Case(
        ("--shell", "--config", "matrix.yaml", "ls", "-l"),
        has=("--entrypoint=bash", *MOUNTS),
        ends=(IMAGE, "-c", "ls -l"),
    ),
    "variables that no matrix names": Case(
        ("plain.yaml",),
        {
            "SLACK_BOT_TOKEN": "hunter22",
            "NVIDIA_API_KEY": "hunter22",
            "MLFLOW_TRACKING_URI": "http://mlflow",
            "GDRIVE_FOLDER_ID": "folder",
            "GDRIVE_SERVICE_ACCOUNT_FILE": "{outside}/far_matrix.yaml",
            "SLACK_CHANNEL_ID": "",
        },
        has=(
            *("--env=SLACK_BOT_TOKEN", "--env=NVIDIA_API_KEY", "--env=MLFLOW_TRACKING_URI", "--env=GDRIVE_FOLDER_ID"),
            "--env=GDRIVE_SERVICE_ACCOUNT_FILE",
            "--volume={outside}/far_matrix.yaml:{outside}/far_matrix.yaml",
        ),
        has_not=("--env=SLACK_CHANNEL_ID",),
    ),
    "another engine": Case(("plain.yaml",), {"DOCKER": "podman"}, ends=(IMAGE, "plain.yaml")),
}
NEVER = ("--net=host", "--network=host", "--privileged", "--name", "--tty", "-t", "-it")


@pytest.mark.parametrize("case", CASES.values(), ids=list(CASES))
def test_docker_is_called_as_promised(bench: Bench, case: Case) -> None:
    def filled(words: tuple[str, ...]) -> list[str]:
        return [word.format(here=bench.folder, outside=bench.outside, clone=bench.clone) for word in words]

    environment = {name: value.format(outside=bench.outside) for name, value in case.env.items()}
    words = bench.run(*filled(case.words), **environment)
    assert words[:3] == ["run", "--rm", "--init"]
    assert [word for word in filled(case.has) if word not in words] == []
    assert [word for word in [*filled(case.has_not), *NEVER] if word in words] == []
    assert words[len(words) - len(case.ends) :] == filled(case.ends)
    options = [word for word in words if word.startswith("--")]
    assert len(options) == len(set(options)), "something is mounted twice"
    assert not any("hunter22" in word for word in words)
    assert f"--user={os.getuid()}:{os.getgid()}" in words
    assert "--env=IMAGE_DIGEST=curator-bench@sha256:5eed" in words
    assert f"--env=HOST_HOSTNAME={os.uname().nodename}" in words


def test_a_token_reaches_docker_by_its_environment(bench: Bench) -> None:
    bench.run("matrix.yaml", SLACK_BOT_TOKEN="xoxb-hunter22")
    assert bench.noted()["token"] == "xoxb-hunter22"


def test_each_container_has_a_host_name_of_its_own(bench: Bench) -> None:
    """Databases tell runs of one machine apart by it: each container counts its processes from 1."""
    names = [next(word for word in bench.run("plain.yaml") if word.startswith("--hostname=")) for _ in range(2)]
    assert len(set(names)) == 2


def test_limits_come_from_the_machine(bench: Bench) -> None:
    said = dict(re.findall(r"--([\w-]+)=(\d+)$", "\n".join(bench.run("plain.yaml")), re.MULTILINE))
    machine = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    assert 0.8 * machine < int(said["memory"]) < machine
    assert said["memory-swap"] == said["memory"]
    assert 0.4 * machine < int(said["shm-size"]) < 0.6 * machine


def test_folders_that_are_missing_are_made_by_us_and_not_by_docker(bench: Bench) -> None:
    bench.run("matrix.yaml")
    made = {folder.name for folder in bench.outside.iterdir() if folder.is_dir()} - {"Curator"}
    assert made == {"data", "models", "results"}


@pytest.mark.parametrize(("debug", "expected"), [("0", {"--interactive", "--tty"}), ("1", {"--interactive"})])
def test_on_a_terminal_it_hands_the_terminal_on(bench: Bench, debug: str, expected: set[str]) -> None:
    """But not to the live display, where the older switch asks for plain output."""
    controller, terminal = pty.openpty()
    try:
        subprocess.run(
            [bench.clone / "ci" / "run.sh", "plain.yaml"],
            cwd=bench.folder,
            env=bench.environment({"CURATOR_BENCHMARKING_DEBUG": debug}),
            stdin=terminal,
            stdout=terminal,
            timeout=60,
            check=True,
        )
    finally:
        os.close(controller)
        os.close(terminal)
    assert {"--interactive", "--tty"} & set(bench.noted()["words"]) == expected


def test_all_gpus_are_used_in_the_older_form_where_there_is_a_driver(bench: Bench) -> None:
    (bench.programs / "nvidia-smi").write_text("#!/bin/sh\n")
    (bench.programs / "nvidia-smi").chmod(0o755)
    assert "--gpus=all" in bench.run("--config", "plain.yaml")
    assert "--gpus=all" not in bench.run("plain.yaml")


def test_the_help_tells_every_option_and_starts_nothing(bench: Bench) -> None:
    outcome = bench.call("run.sh", "--help")
    assert outcome.returncode == 0
    for option in ("--config", "--shell", "--use-host-curator ", "--use-host-curator-benchmarking", "PASS_ENV"):
        assert option in outcome.stdout
    assert not bench.notes.exists()


def test_it_can_print_the_line_without_an_engine(bench: Bench) -> None:
    outcome = bench.call("run.sh", "--print", "matrix.yaml", "-k", "a b", DOCKER="no-such-engine", IMAGE="mine")
    words = shlex.split(outcome.stdout)
    assert words[:2] == ["no-such-engine", "run"]
    assert words[-4:] == ["mine", "matrix.yaml", "-k", "a b"]
    assert f"--volume={bench.outside}/data:/datasets" in words


@pytest.mark.parametrize(
    ("words", "environment", "said"),
    [
        (("plain.yaml",), {"GPUS": "two"}, "expected none, all or their numbers"),
        (("plain.yaml",), {"IMAGE": "not-built"}, "ci/build_docker.sh builds it"),
        (("plain.yaml",), {"DOCKER": "no-such-engine"}, "no-such-engine: command not found"),
        (("broken.yaml",), {}, "did you mean 'entries'?"),
        (("--bench-matrix",), {}, "--bench-matrix wants a value"),
        (("--config",), {}, "--config wants a value"),
        (("--config", "missing.yaml"), {}, "--config: there is no missing.yaml"),
        (("--use-host-curator", "plain.yaml"), {}, "HOST_CURATOR_DIR names the folder of its source"),
        (
            ("--use-host-curator", "--config=plain.yaml"),
            {"HOST_CURATOR_DIR": "/not/there"},
            "there is no /not/there",
        ),
        (("--use-host-curator", "--use-host-curator-benchmarking"), {}, "name one of them"),
    ],
)
def test_a_mistake_is_said_before_anything_runs(
    bench: Bench, words: tuple[str, ...], environment: dict[str, str], said: str
) -> None:
    (bench.folder / "broken.yaml").write_text("entrys: []\n")
    outcome = bench.call("run.sh", *words, **environment)
    assert outcome.returncode != 0
    assert said in outcome.stderr
    assert not bench.notes.exists()


BUILDS = {
    (): ("curator-bench:latest", ()),
    ("--cuda",): ("curator-bench:cuda", ("BASE_IMAGE=nvidia/cuda:",)),
    ("--base", "python:3.12-slim@sha256:00", "--extras", ""): (
        "curator-bench:latest",
        ("BASE_IMAGE=python:3.12-slim@sha256:00", "EXTRAS="),
    ),
    ("--extras", "all,curator", "--", "--no-cache"): ("curator-bench:latest", ("EXTRAS=all,curator", "--no-cache")),
}


@pytest.mark.parametrize("words", BUILDS, ids=[" ".join(words) or "plain" for words in BUILDS])
def test_the_image_is_built_as_promised(bench: Bench, words: tuple[str, ...]) -> None:
    outcome = bench.call("build_docker.sh", *words)
    assert outcome.returncode == 0, outcome.stderr
    tag, options = BUILDS[words]
    called = bench.noted()["words"]
    assert (called[0], called[-1]) == ("build", ".")
    assert tag in called
    assert all(any(word.startswith(option) for word in called) for option in options)
    assert outcome.stdout == f"{tag} curator-bench@sha256:5eed\n"
