"""Environments of packages: a venv on top of an interpreter's packages, and what is installed into it.

Everything that needs an environment of its own gets it here: `ab` for requirements and for commits, `bisect --install`,
`bisect --packages`.
uv installs where it is there, as pip was told to; pip installs where it is not, and what uv cannot.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from curator_bench.errors import BenchError
from curator_bench.hunting.children import environment, run, tail_of
from curator_bench.hunting.layers import link_all_but
from curator_bench.hunting.pip_settings import INDEX_OPTIONS, find_uv, pip_settings, uv_flags, uv_variables
from curator_bench.hunting.uv_locks import locked_packages
from curator_bench.measure.programs import question

_FILE = ("-r", "--requirement")
_WITH_A_VALUE = {
    **{name: name for name in (*INDEX_OPTIONS, "--find-links", "--no-binary", "--only-binary")},
    "--trusted-host": "--allow-insecure-host",
}
"""Options of pip, and what they are called in uv."""
_LAYER = "import site; site.addsitedir({folder!r})\n"
_PACKAGES = """
import json, sys
from importlib.metadata import distributions
sites = [path for path in sys.path if path.rstrip("/").endswith(("site-packages", "dist-packages"))]
packages = [(one.metadata["Name"], one.version) for one in distributions() if not one.read_text("direct_url.json")]
print(json.dumps({"sites": sites, "packages": [pair for pair in packages if all(pair)]}))
"""
_FILES = """
import json, re, sys
from importlib.metadata import distributions
named = set(sys.argv[1:])
found = []
for one in distributions():
    if re.sub(r"[-_.]+", "-", one.metadata["Name"] or "").lower() in named:
        found += [str(one.locate_file(file)) for file in one.files or []]
print(json.dumps(found))
"""
_SURVEY = """
import json
from importlib.metadata import distributions
found = []
for one in distributions():
    if one.metadata["Name"] and one.version:
        found.append([one.metadata["Name"], one.version, one.requires or []])
print(json.dumps(found))
"""
_PINNED = re.compile(r"([A-Za-z0-9._-]+)==(\S+)")


@dataclass(frozen=True, slots=True)
class Venv:
    """A venv, and the log of what was installed into it."""

    folder: Path
    base: str
    """The interpreter whose packages it uses, where it has none of its own."""
    name: str
    without: frozenset[str] = frozenset()
    """Packages of that interpreter, by their normalized names, that it does not use."""

    @property
    def python(self) -> str:
        return str(self.folder / "bin" / "python")

    @property
    def log(self) -> Path:
        return self.folder.with_name(f"{self.folder.name}.log")

    @property
    def variables(self) -> dict[str, str]:
        """Variables by which installers know the environment that is meant."""
        return {"VIRTUAL_ENV": str(self.folder), "UV_PROJECT_ENVIRONMENT": str(self.folder)}

    def create(self, *, for_commands: bool = False) -> None:
        """Create it on top of the interpreter's packages. Commands of the user's find a pip of its own."""
        found = _asked(self.base, _PACKAGES, {})
        if found.returncode:
            raise BenchError(f"{self.name}: {self.base} does not run: {found.stderr.strip()}")
        has_pip = for_commands or find_uv(sys.executable) is None
        words = [self.base, "-m", "venv", *([] if has_pip else ["--without-pip"]), str(self.folder)]
        self._logged(words, "a venv could not be created")
        layers = [_LAYER.format(folder=folder) for folder in self._layers(json.loads(found.stdout)["sites"])]
        (self.site / "layer.pth").write_text("".join(layers), "utf-8")

    def _layers(self, sites: Sequence[str]) -> list[str]:
        """Return the folders of packages below it."""
        if not self.without:
            return list(sites)
        files = list(map(Path, json.loads(_asked(self.base, _FILES, {}, *sorted(self.without)).stdout)))
        layers = [self.folder / f"layer-{number}" for number, _ in enumerate(sites)]
        for site, layer in zip(sites, layers, strict=True):
            link_all_but(Path(site), files, layer)
        return list(map(str, layers))

    @property
    def site(self) -> Path:
        """The folder of its packages."""
        (found,) = self.folder.glob("lib/python*/site-packages")
        return found

    def install(self, words: Sequence[str], folder: Path | None = None) -> None:
        """Install what is not there yet. `words` are arguments for pip."""
        uv = find_uv(sys.executable)
        if uv is not None and self._installed_by(uv, list(words), folder):
            return
        command = [self.python, "-m", "pip", "install", "--disable-pip-version-check", *words]
        self._logged(command, f"{'uv and pip' if uv else 'pip'} could not install what it needs", folder)

    def install_project(self, project: Path) -> None:
        """Install the project in a folder, with the versions of its uv.lock if it has one."""
        self.install([*self._locked(project), str(project)], project)

    def _locked(self, project: Path) -> list[str]:
        """Return the arguments that install what a uv.lock says. Where uv is missing, we read the file."""
        lock, pins, uv = project / "uv.lock", self.folder / "locked.txt", find_uv(sys.executable)
        if not lock.exists():
            return []
        words = ["--frozen", "--quiet", "--no-dev", "--no-emit-project", "--no-hashes", "--output-file", str(pins)]
        if uv is None or self._run([uv, "export", *words], project, uv_variables(pip_settings(self.base))):
            lines, _ = locked_packages(lock.read_text("utf-8"), lock)
            pins.write_text("".join(f"{line}\n" for line in lines.values()), "utf-8")
        return [_FILE[0], str(pins)]

    def run(self, command: str, folder: Path) -> int:
        """Run a shell command of the user's that installs into this environment. Return its exit code."""
        return self._run(["/bin/sh", "-c", command], folder, self.variables)

    def _installed_by(self, uv: str, words: list[str], folder: Path | None) -> bool:
        """Install with uv; false if it could not.

        uv sees only what is in the venv. So it resolves first, and prefers the versions that are there already; then
        the packages are installed that are not, or not in that version.
        """
        settings = pip_settings(self.base)
        asked = _lines_for_uv(words)
        if asked is None:
            return False
        requirements, options = asked
        wanted, chosen = self.folder / "wanted.in", self.folder / "chosen.txt"
        wanted.write_text("".join(f"{line}\n" for line in requirements), "utf-8")
        there = self._packages_below()
        chosen.write_text("".join(f"{name}=={version}\n" for name, version in there.items()), "utf-8")
        configured = uv_flags(settings)
        more = [word for word in options if word not in configured]
        flags = ["--quiet", "--python", self.python, *configured, *more]
        variables = {**uv_variables(settings), **self.variables}
        resolve = [uv, "pip", "compile", *flags, "--no-header", "--no-annotate", "--output-file", str(chosen)]
        if self._run([*resolve, str(wanted)], folder, variables):
            return False
        missing = [line for line in chosen.read_text("utf-8").splitlines() if not _is_there(line, there)]
        chosen.write_text("".join(f"{line}\n" for line in missing), "utf-8")
        anew = [f"--reinstall-package={line.partition(' @ ')[0]}" for line in missing if " @ " in line]
        alone = [] if "--no-deps" in options else ["--no-deps"]
        install = [uv, "pip", "install", *flags, *alone, *anew, "--requirement", str(chosen)]
        return not missing or self._run(install, folder, variables) == 0

    def _packages_below(self) -> dict[str, str]:
        """Versions of the packages of the base interpreter that an index has."""
        found = json.loads(_asked(self.base, _PACKAGES, {}).stdout)["packages"]
        return {name: version for one, version in reversed(found) if (name := normal(one)) not in self.without}

    def _logged(self, words: list[str], problem: str, folder: Path | None = None) -> None:
        if self._run(words, folder, self.variables):
            raise BenchError(f"{self.name}: {problem}:\n{tail_of(self.log)}")

    def _run(self, words: list[str], folder: Path | None, variables: Mapping[str, str]) -> int:
        python = self.python if Path(self.python).exists() else self.base
        # What the caller's environment says comes first, as with uv and pip themselves.
        env = environment({**variables, **_said_for(variables)}, python)
        with self.log.open("ab") as output:
            return run(words, env=env, cwd=folder or self.log.parent, output=output)


def _said_for(variables: Mapping[str, str]) -> dict[str, str]:
    ours = ("VIRTUAL_ENV", "UV_PROJECT_ENVIRONMENT")
    return {name: os.environ[name] for name in variables if name in os.environ and name not in ours}


def _lines_for_uv(words: Sequence[str]) -> tuple[list[str], list[str]] | None:
    """Split arguments for pip into lines of requirements and options; None if some may mean something else to uv."""
    known = {"--no-index": (), "--no-build-isolation": (), "--no-deps": (), "--pre": ("--prerelease=allow",)}
    lines, options, rest = list[str](), list[str](), iter(words)
    for word in rest:
        if word in _FILE:
            lines.append(f"-r {next(rest, '')}")
        elif word in _WITH_A_VALUE:
            options += [_WITH_A_VALUE[word], next(rest, "")]
        elif word in known:
            options += known[word] or (word,)
        elif word.startswith("-"):
            return None
        else:
            lines.append(_as_requirement(word))
    return lines, options


def _as_requirement(word: str) -> str:
    """A folder of a project is a URL, so that nobody takes it for a file of requirements."""
    return Path(word).absolute().as_uri() if "/" in word and Path(word).is_dir() else word


def _is_there(line: str, there: Mapping[str, str]) -> bool:
    pinned = _PINNED.fullmatch(line.strip())
    return not line.strip() or (pinned is not None and there.get(normal(pinned[1])) == pinned[2])


def normal(name: str) -> str:
    """Return the name by which indexes and installers know a package."""
    return re.sub(r"[-_.]+", "-", name).lower()


def has_curator_bench(python: str, env: Mapping[str, str]) -> tuple[bool, str]:
    """Return whether an interpreter has what a side needs, and else what it said."""
    done = _asked(python, "import curator_bench, pytest", env)
    said = done.stderr.strip().splitlines()
    return done.returncode == 0, said[-1] if said else ""


def installed_packages(python: str) -> dict[str, tuple[str, tuple[str, ...]]]:
    """Return version and requirements of each package that an interpreter has, by normalized name."""
    done = _asked(python, _SURVEY, {})
    if done.returncode:
        raise BenchError(f"{python} does not list its packages: {done.stderr.strip()}")
    found = reversed(json.loads(done.stdout))  # the first one of a name is the one that is imported
    return {normal(name): (str(version), tuple(requires)) for name, version, requires in found}


def _asked(python: str, program: str, env: Mapping[str, str], *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        question(python, program, *words),
        env=environment(env, python),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
