"""The image, built and used on this machine: a base of Debian's own packages, ci/build_docker.sh, ci/run.sh.

It needs neither a daemon nor cgroups (see container_engine.py), so limits of containers are not tried. Containers run
as another user than root. The addresses and certificates by which this machine installs packages are mounted while the
image is built; nothing of them is in it.
"""

from __future__ import annotations

import ast
import json
import os
import re
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from other_user import NOBODY

ROOT = Path(__file__).parents[2]
ENGINE = Path(__file__).with_name("container_engine.py")
BASE = "localhost/base:bookworm"
_FURTHER_PIP_SOURCES = ("find-links", "trusted-host")
PROGRAMS = ("debootstrap", "podman", "buildah", "tar")
OWN_CLUSTER = """
import json, pathlib, sys
import ray
ray.init(log_to_driver=False)
squares = ray.get([ray.remote(lambda n: n * n).remote(n) for n in range(4)])
out = pathlib.Path(sys.argv[-1])
(out / "params.json").write_text("{}")
(out / "metrics.json").write_text(json.dumps({"sum": sum(squares), "cpus": ray.cluster_resources()["CPU"]}))
"""
READS = """
import json, os, pathlib, sys
text = pathlib.Path(sys.argv[1], "words.txt").read_text()
out = pathlib.Path(sys.argv[-1])
(out / "params.json").write_text("{}")
found = {"words": len(text.split()), "user": os.getuid(), "fruit": os.environ.get("FRUIT", "")}
(out / "metrics.json").write_text(json.dumps(found))
"""


@dataclass
class Machine:
    """The way by which this machine gets its packages, as mounts for a build."""

    folder: Path
    mirror: str
    mounts: list[str]
    addresses: set[str]
    """The hosts and local folders that no image may name."""

    @classmethod
    def asked(cls, folder: Path) -> Machine:
        """Ask apt and pip."""
        machine = cls(folder, _mirror(), [], set())
        settings = _pip_settings()
        if machine.mirror:
            machine.addresses |= {urlsplit(machine.mirror).netloc} - {urlsplit(_debians_mirror()).netloc}
            machine.mount(machine.write("sources.list", f"deb {machine.mirror} bookworm main\n"))
        config = ["[global]"]
        if certificates := settings.get("cert") or os.environ.get("SSL_CERT_FILE"):
            config.append(f"cert = {machine.lent(certificates)}")
        names = [name for name in settings if name.endswith("-url") or name in _FURTHER_PIP_SOURCES]
        sources = {name: settings[name].split() for name in names}
        config += [f"{name} = " + "\n    ".join(map(machine.lent, words)) for name, words in sources.items() if words]
        machine.mount(machine.write("pip.conf", "\n".join(config)), "/etc/pip.conf")
        return machine

    def write(self, name: str, text: str) -> Path:
        path = self.folder / name
        path.write_text(text)
        return path

    def mount(self, here: Path, there: str = "/etc/apt/sources.list") -> None:
        self.mounts += ["--volume", f"{here}:{there}:ro"]

    def lent(self, word: str) -> str:
        """A path or an address as it is for the build: what is on this machine is mounted, beside what it refers to."""
        here = Path(urlsplit(word).path if word.startswith("file://") else word)
        if not here.is_absolute():
            if host := urlsplit(word).netloc:
                self.addresses.add(host)
            return word
        folder = here.parent if here.is_dir() else here
        there = f"/mnt/packages/{len(self.mounts)}"
        self.mount(folder, there)
        return ("file://" if word.startswith("file://") else "") + (f"{there}/{here.name}" if here.is_dir() else there)


def _mirror() -> str:
    """Where this machine has Debian's packages from; an empty text for debootstrap's own choice."""
    asked = ["apt-get", "indextargets", "--format", "$(REPO_URI)", "Created-By: Packages", "Codename: bookworm"]
    found = subprocess.run(asked, capture_output=True, text=True, check=False).stdout.split()
    return found[0] if found else ""


def _debians_mirror() -> str:
    """The mirror that debootstrap chooses where nobody names one."""
    program = shutil.which("debootstrap")
    assert program
    chosen = re.search('^DEF_MIRROR="(.+)"$', Path(program).read_text(), re.MULTILINE)
    assert chosen
    return chosen[1]


def _pip_settings() -> dict[str, str]:
    """The settings of files, and above them those of the environment."""
    said = subprocess.run([sys.executable, "-m", "pip", "config", "list"], capture_output=True, text=True, check=True)
    found: dict[str, str] = {}
    for line in sorted(said.stdout.splitlines(), key=lambda line: line.startswith(":env:")):
        name, _, value = line.partition("=")
        found[name.rpartition(".")[2]] = str(ast.literal_eval(value))
    return found


@dataclass
class Image:
    """The image in a storage of its own, and what was said while it was built."""

    storage: Path
    engine: Path
    machine: Machine

    def environment(self, **more: str) -> dict[str, str]:
        own = {"DOCKER": str(self.engine), "ENGINE_STORAGE": str(self.storage), "ENGINE_USER": f"{NOBODY}:{NOBODY}"}
        return {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}", **own, **more}

    def call(self, *command: str | Path, folder: Path = ROOT, **variables: str) -> str:
        done = subprocess.run(
            command,
            cwd=folder,
            env=self.environment(**variables),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=1800,
            check=False,
        )
        assert done.returncode == 0, f"{command}\n{done.stdout[-6000:]}"
        return done.stdout

    def run(self, folder: Path, *words: str, **variables: str) -> str:
        """What somebody does who has benchmarks in this folder."""
        return self.call(ROOT / "ci" / "run.sh", *words, folder=folder, **variables)

    def build(self, base: Path) -> None:
        self.call("tar", "--create", f"--file={base}.tar", f"--directory={base}", ".")
        self.call(self.engine, "import", f"{base}.tar", BASE)
        Path(f"{base}.tar").unlink()
        options = ("--isolation", "chroot", "--network", "host", *self.machine.mounts)
        self.call(ROOT / "ci" / "build_docker.sh", "--base", BASE, "--", *options)

    def remove(self) -> None:
        """Remove the storage with all images and containers, and what may still be mounted in it."""
        mounts = [line.split()[1] for line in Path("/proc/mounts").read_text().splitlines()]
        for mount in sorted((mount for mount in mounts if mount.startswith(f"{self.storage}/")), reverse=True):
            subprocess.run(["umount", "--lazy", mount], check=False)
        shutil.rmtree(self.storage, ignore_errors=True)


def make_base(folder: Path, mirror: str) -> Path:
    """A Debian with Python, that names Debian's own servers, wherever its packages have come from."""
    base = folder / "base"
    packages = "--include=python3,python3-venv,ca-certificates"
    made = ["debootstrap", "--variant=minbase", packages, "bookworm", str(base), *filter(None, [mirror])]
    done = subprocess.run(made, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    assert done.returncode == 0, done.stdout[-4000:]
    (base / "etc/apt/sources.list").write_text(f"deb {_debians_mirror()} bookworm main\n")
    for left in [*(base / "var/lib/apt/lists").glob("*_*"), *(base / "var/log").rglob("*.log"), base / "debootstrap"]:
        shutil.rmtree(left) if left.is_dir() else left.unlink(missing_ok=True)
    return base


@pytest.fixture(scope="module")
def image(full: bool, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Image]:
    if not full:
        pytest.skip("the image is built by `make proof` only")
    if not hasattr(os, "geteuid") or os.geteuid() != 0:
        pytest.skip("needs root, to build an image without a daemon and to run it as another user")
    if missing := [name for name in PROGRAMS if shutil.which(name) is None]:
        pytest.skip(f"needs Debian's packages {', '.join(missing)}")
    folder = tmp_path_factory.mktemp("image")
    engine = folder / "engine"
    engine.write_text(f'#!/bin/sh\nexec "{sys.executable}" "{ENGINE}" "$@"\n')
    engine.chmod(0o755)
    storage = folder / "storage"
    storage.mkdir()
    built = Image(storage, engine, Machine.asked(folder))
    try:
        built.build(make_base(storage, built.machine.mirror))
        yield built
    finally:
        built.remove()


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """A folder with benchmarks, of the user that containers run as."""
    yield tmp_path
    subprocess.run(["chown", "--recursive", f"{os.geteuid()}", tmp_path], check=False)


def give_away(folder: Path) -> None:
    subprocess.run(["chown", "--recursive", f"{NOBODY}:{NOBODY}", folder], check=True)


def test_the_demo_suite_runs_in_the_image_and_is_recorded(image: Image, folder: Path) -> None:
    shutil.copytree(ROOT / "benchmarks" / "demo", folder / "demo")
    give_away(folder)
    said = image.run(folder, "demo", "-m", "demo", "--benchmark", "--benchmark-db", "runs.db")
    assert "8 passed" in said
    with sqlite3.connect(folder / "runs.db") as database:
        runs = database.execute("SELECT verdict, originalname FROM test_run").fetchall()
    assert sorted(runs) == [("passed", "hashing")] * 4 + [("passed", "sorting")] * 4
    assert (folder / "runs.db").stat().st_uid == NOBODY
    assert re.search(r"--memory=\d+ cannot be had without cgroups", said)


def test_an_entry_has_its_own_ray_cluster_in_the_image(image: Image, folder: Path) -> None:
    (folder / "own.py").write_text(OWN_CLUSTER)
    ray = {"num_cpus": 1, "num_gpus": 0, "object_store_size": 100_000_000}
    (folder / "matrix.yaml").write_text(json.dumps({"entries": [{"name": "own", "script": "own.py", "ray": ray}]}))
    give_away(folder)
    image.run(folder, "matrix.yaml", "--bench-session", "s")
    metrics = json.loads((folder / "results/s/own/results.json").read_text())["metrics"]
    assert (metrics["sum"], metrics["cpus"]) == (14, 1)


def test_what_a_matrix_names_is_mounted_and_handed_in(image: Image, folder: Path) -> None:
    benchmarks, data, elsewhere = folder / "benchmarks", folder / "data", folder / "elsewhere"
    for made in (benchmarks, data, elsewhere):
        made.mkdir()
    (data / "words.txt").write_text("one two three")
    (benchmarks / "reads.py").write_text(READS)
    matrix = {
        "ray": False,
        "paths": [{"name": "data", "host_path": str(data), "container_path": "/datasets"}],
        "entries": [{"name": "reads", "script": "reads.py", "args": "{data}", "env": {"FRUIT": "${FRUIT}"}}],
    }
    (benchmarks / "matrix.yaml").write_text(json.dumps(matrix))
    give_away(folder)
    words = ("matrix.yaml", "--bench-results", str(elsewhere), "--bench-session", "s")
    image.run(benchmarks, *words, FRUIT="pear")
    run = json.loads((elsewhere / "s/reads/results.json").read_text())
    assert "/datasets" in run["command"]
    assert [run["metrics"][name] for name in ("words", "user", "fruit")] == [3, NOBODY, "pear"]
    assert (elsewhere / "s/reads/results.json").stat().st_uid == NOBODY
    source = image.run(benchmarks, "--shell", "python -c 'import curator_bench; print(curator_bench.__file__)'")
    assert source.splitlines()[-1].startswith("/opt/venv/")
    own = image.run(
        benchmarks, "--use-host-source", "--shell", "python -c 'import curator_bench as c; print(c.__file__)'"
    )
    assert own.splitlines()[-1] == str(ROOT / "src/curator_bench/__init__.py")


def test_the_image_has_nothing_of_the_machine_it_was_built_on(image: Image, folder: Path) -> None:
    give_away(folder)
    inspected = image.call(image.engine, "image", "inspect", "--format", "{{json .Config}}", "curator-bench:latest")
    config = json.loads(inspected)
    assert (config["User"], config["Entrypoint"]) == ("10000", ["pytest"])
    assert config["Labels"]["org.opencontainers.image.revision"]
    for address in image.machine.addresses:
        search = f"find / -xdev -type f -size -2000k -print0 | xargs -0 grep -lsF -e '{address}' || true"
        assert not re.search("^/", image.run(folder, "--shell", search), re.MULTILINE), address
    sizes = image.run(folder, "--shell", "stat --format %s /etc/pip.conf; find /mnt -type f -size +0")
    assert sizes.splitlines()[-1] == "0"


def test_the_dockerfile_names_no_registry_and_one_base() -> None:
    text = re.sub(r"^#.*\n", "", (ROOT / "Dockerfile").read_text(), flags=re.MULTILINE)
    assert "://" not in text
    assert re.search(r"^ARG BASE_IMAGE=[\w:.-]+$", text, re.MULTILINE)
    stages = re.findall(r"^FROM (.*)$", text, re.MULTILINE)
    assert all(re.match(r"\$\{BASE_IMAGE\} AS base|base\b", stage) for stage in stages)
