"""Environment files: an interpreter or packages, variables and matrix overlays."""

from __future__ import annotations

import os
import re
import shutil
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from curator_bench.errors import BenchError
from curator_bench.files.names import is_safe_name
from curator_bench.hunting.building import Venv, has_curator_bench
from curator_bench.hunting.sides import Side
from curator_bench.values import Scalar
from curator_bench.verdict.requirements import nearest_names

_KEYS = ("name", "python", "requirements", "env", "matrix")
_FILE = "--requirement"
_VARIABLE = re.compile(r"[^=\0]+\Z")


@dataclass(frozen=True, slots=True)
class Environment:
    """One side of a comparison."""

    name: str
    python: str = sys.executable
    requirements: tuple[str, ...] = ()
    """Arguments for pip. They are installed in a venv on top of the packages of `python`."""
    env: Mapping[str, str] = field(default_factory=dict)
    overlays: tuple[str, ...] = ()

    def parts(self) -> list[str]:
        """Return everything that defines the environment, including the text of the files it names."""
        variables = [f"{name}={value}" for name, value in sorted(self.env.items())]
        files = [Path(word).read_text("utf-8", "replace") for word in self._files()]
        return [self.name, self.python, *self.requirements, *variables, *self.overlays, *files]

    def _files(self) -> list[str]:
        file = self.requirements[1:] if self.requirements[:1] == (_FILE,) else ()
        return [*file, *self.overlays]


def read(file: Path) -> Environment:
    """Read an environment file. Raises BenchError with all mistakes. Paths are relative to the file."""
    document = _loaded(file)
    problems = [*_unknown(document), *_wrong(document)]
    if problems:
        raise BenchError("\n".join(f"{file}: {problem}" for problem in problems))
    try:
        return _environment(document, file.absolute())
    except BenchError as error:
        raise BenchError(f"{file}: {error}") from error


def _environment(document: Mapping[str, Any], file: Path) -> Environment:
    return Environment(
        name=str(document.get("name", file.stem)),
        python=_python(document.get("python"), file.parent),
        requirements=_requirements(document.get("requirements"), file.parent),
        env={str(name): _text(value) for name, value in (document.get("env") or {}).items()},
        overlays=tuple(str(_existing(file.parent / overlay)) for overlay in _list(document.get("matrix"))),
    )


def _loaded(file: Path) -> dict[str, Any]:
    import yaml

    try:
        document = yaml.safe_load(file.read_text("utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise BenchError(f"{file} cannot be read: {getattr(error, 'strerror', None) or error}") from error
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        line = f", line {mark.line + 1}" if mark else ""
        raise BenchError(f"{file}{line}: not YAML: {getattr(error, 'problem', None) or error}") from error
    if document is not None and not isinstance(document, dict):
        raise BenchError(f"{file}: found a {type(document).__name__}, expected keys of {', '.join(_KEYS)}")
    return document or {}


def _unknown(document: Mapping[str, Any]) -> list[str]:
    return [f"{key}: no such key; {_meant(str(key))}" for key in document if key not in _KEYS]


def _meant(key: str) -> str:
    near = nearest_names(key, _KEYS)
    return f"did you mean {near[0]}?" if near else f"there are {', '.join(_KEYS)}"


def _wrong(document: Mapping[str, Any]) -> list[str]:
    wrong = []
    if "name" in document and not is_safe_name(str(document["name"])):
        wrong.append(f"name: found {document['name']!r}, expected letters, digits and _ . - + @")
    if not isinstance(document.get("python", ""), str):
        wrong.append(f"python: found {document['python']!r}, expected an interpreter")
    wrong += [
        f"{key}: found {document[key]!r}, expected a text or a list of texts"
        for key in ("requirements", "matrix")
        if not all(isinstance(one, str) for one in _list(document.get(key)))
    ]
    env = document.get("env") or {}
    if not isinstance(env, dict) or not all(isinstance(value, str | int | float) for value in env.values()):
        wrong.append(f"env: found {env!r}, expected variables with their values")
        return wrong
    wrong += [f"env: {name!r} can be no variable" for name in env if not _VARIABLE.match(str(name))]
    wrong += [f"env: {name}: a variable cannot contain a zero byte" for name in env if "\0" in str(env[name])]
    return wrong


def _list(value: Any) -> list[Any]:
    return [] if value is None else value if isinstance(value, list) else [value]


def _text(value: Scalar) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _python(said: str | None, base: Path) -> str:
    if said is None:
        return sys.executable
    said = os.path.expanduser(said)
    found = shutil.which(str(base / said) if "/" in said else said)
    if found is None:
        raise BenchError(f"python: {said} is not a program")
    return found


def _requirements(said: Any, base: Path) -> tuple[str, ...]:
    """Return arguments for pip. A file is passed as a file, so that pip finds what it includes beside it."""
    if isinstance(said, str):
        return (_FILE, str(_existing(base / said)))
    return tuple(said or ())


def _existing(path: Path) -> Path:
    if not path.is_file():
        raise BenchError(f"{path}: no such file")
    return path


def sides_of(environments: Sequence[Environment], pytest_args: tuple[str, ...], folder: Path) -> list[Side]:
    """Return the sides of a comparison: the same benchmarks in each environment."""
    return [
        Side(
            one.name,
            one.python,
            (*pytest_args, *(f"--bench-matrix={overlay}" for overlay in one.overlays)),
            folder,
            one.env,
        )
        for one in environments
    ]


def parts_of(environments: Sequence[Environment], pytest_args: Sequence[str], folder: Path) -> list[str]:
    """Return everything that defines a comparison: environments, arguments and code."""
    from curator_bench.provenance.git import contents

    parts = [part for one in environments for part in one.parts()]
    return [*parts, *pytest_args, str(folder), contents(folder)]


def ready(wanted: Environment, folder: Path) -> Environment:
    """Return the environment with an interpreter that has curator-bench. A venv is made in `folder` if it needs one."""
    made = replace(wanted, python=_with_requirements(wanted, folder)) if wanted.requirements else wanted
    is_usable, said = has_curator_bench(made.python, made.env)
    if not is_usable:
        raise BenchError(
            f"{wanted.name}: {wanted.python} has no curator-bench: install it there, or name `requirements` without"
            f" `python`\n  {said}".rstrip()
        )
    return made


def _with_requirements(wanted: Environment, folder: Path) -> str:
    venv = Venv(folder / wanted.name, wanted.python, wanted.name)
    venv.create()
    venv.install(wanted.requirements)
    return venv.python
