"""Find extensions by name: an entry point, `module:Class`, or `./file.py:Class`."""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
import stat
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from importlib.metadata import entry_points
from pathlib import Path
from types import ModuleType
from typing import Any

from curator_bench.errors import BenchError


def find(what: str, name: str, folder: Path, *, ours: Iterable[str] = ()) -> Any:
    """Return the class or function of this name. Raises BenchError.

    `what` is `sampler`, `cluster provider` or `sink`. Files are looked for in `folder`. Packages offer names as entry
    points of the group `curator_bench.samplers`, and so on. `ours` are names that the caller knows.
    """
    if ":" in name:
        return load(what, name, folder)
    offered = offered_as(what)
    if name not in offered:
        known = ", ".join(sorted(offered)) or "none"
        expected = ", ".join([*ours, "module:Class", "./file.py:Class, or an entry point"])
        raise BenchError(f"unknown {what} {name!r}; expected {expected}: {known}")
    return load(what, offered[name], folder)


def offered_as(what: str) -> dict[str, str]:
    """Return the names that installed packages offer, each with its `module:Class`."""
    return {entry.name: entry.value for entry in entry_points(group=f"curator_bench.{what.replace(' ', '_')}s")}


def load(what: str, where: str, folder: Path) -> Any:
    """Return the object at `module:Class` or `./file.py:Class`. Any exception becomes a BenchError."""
    module, _, attribute = where.rpartition(":")
    try:
        found: Any = _file(folder / module, folder) if module.endswith(".py") else importlib.import_module(module)
        for part in attribute.split("."):
            found = getattr(found, part)
    except (Exception, SystemExit) as error:  # whatever the module of a user raises when it is imported
        raise BenchError(f"the {what} {where!r} cannot be loaded: {type(error).__name__}: {error}") from error
    return found


def _file(path: Path, folder: Path) -> ModuleType:
    """Import a file as a module with a unique name."""
    name = f"curator_bench_extension_{hashlib.sha256(str(path).encode()).hexdigest()[:12]}"
    if name in sys.modules:
        return sys.modules[name]
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise FileNotFoundError(path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # dataclasses and pydantic look their module up there
    try:
        with _importing_from(folder):
            spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module


@contextmanager
def _importing_from(folder: Path) -> Iterator[None]:
    """Let a file import modules of its matrix's folder while it is loaded, unless everybody can put modules there."""
    path = str(folder)
    if path in sys.path or folder.stat().st_mode & stat.S_IWOTH:
        yield
        return
    sys.path.append(path)
    try:
        yield
    finally:
        sys.path.remove(path)
