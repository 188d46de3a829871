"""Environments between two: some packages as on one side, the others as on the other, each built once and kept."""

from __future__ import annotations

import functools
import hashlib
import shutil
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name

from curator_bench.errors import BenchError
from curator_bench.hunting.building import Venv, has_curator_bench, installed_packages
from curator_bench.hunting.kept_folders import kept_root, note_use, remove_unused
from curator_bench.hunting.package_lists import PackageList
from curator_bench.hunting.package_units import Installed, is_wanted

KEPT_ENVIRONMENTS = 40
_OWN = "curator-bench"
_INSTALLERS = ("pip", "setuptools", "uv", "wheel")
_COMPLETE = "complete"


@dataclass(frozen=True, slots=True)
class Recipe:
    """Everything that defines an environment on top of the packages of this Python."""

    label: str
    """Its name, for people."""
    pins: tuple[str, ...]
    """Lines of a requirements file."""
    options: tuple[str, ...] = ()
    """Arguments for pip."""
    without: frozenset[str] = frozenset()
    """Packages of this Python that it does not have."""
    with_dependencies: bool = False
    key: str = ""

    @property
    def short(self) -> str:
        return self.key[:12]

    def __str__(self) -> str:
        return self.label


class MixedEnvironments:
    """The environments of two lists of packages. What neither list has is as it is in this Python."""

    def __init__(self, before: PackageList, after: PackageList, tell: Callable[[str], None]) -> None:
        self._lists, self._tell = (before, after), tell
        self._base = installed_packages(sys.executable)
        self._kept = self._needed_here()
        options = dict.fromkeys((*before.options, *after.options))
        self._options = tuple(word for option in options for word in option)
        self._venvs: dict[str, Venv] = {}
        self.ends = tuple(self._end(number) for number in (0, 1))
        self.packages: tuple[Mapping[str, Installed], ...] = ()
        remove_unused(kept_root("packages"), KEPT_ENVIRONMENTS)

    def build_ends(self) -> None:
        """Build both, and look at what they have in the end."""
        self.packages = tuple(
            {
                name: Installed(version, requires, _url_line(listed.pins.get(name, "")))
                for name, (version, requires) in installed_packages(self.built(end).python).items()
                if name != _OWN
            }
            for listed, end in zip(self._lists, self.ends, strict=True)
        )

    def mix(self, label: str, new: frozenset[str]) -> Recipe:
        """Return the environment in which these packages are as after, and all others as before."""
        before, after = self.packages
        names = sorted(before.keys() | after.keys())
        wanted = {name: (after if name in new else before).get(name) for name in names}
        lines = {name: one.pin or f"{name}=={one.version}" for name, one in wanted.items() if one is not None}
        pins = [line for name, line in lines.items() if not self._is_here(name, line)]
        absent = frozenset(name for name, one in wanted.items() if one is None and name in self._base)
        return self._keyed(Recipe(label, tuple(pins), self._options, absent))

    def built(self, recipe: Recipe) -> Venv:
        """Return the environment of an earlier bisect, or build it. Raises BenchError if it cannot be installed."""
        if recipe.key not in self._venvs:
            folder = kept_root("packages") / recipe.key[:16]
            folder.mkdir(mode=0o700, exist_ok=True)
            venv = Venv(folder / "venv", sys.executable, recipe.label, recipe.without)
            if not (folder / _COMPLETE).exists():
                self._tell(f"{recipe}: installing")
                _build(venv, recipe)
                (folder / _COMPLETE).touch()
            note_use(folder)
            self._venvs[recipe.key] = venv
        return self._venvs[recipe.key]

    def fixed(self) -> Iterator[str]:
        """Say which packages of the lists are not exchanged, and why."""
        before, after = self._lists
        for name in sorted({*before.others, *after.others}):
            sides = [one.pins.get(name, one.others.get(name)) for one in self._lists]
            if sides[0] != sides[1] or name not in self._base:
                yield f"{name}: {before.others.get(name) or after.others.get(name)}"
        if before.pins.get(_OWN) != after.pins.get(_OWN):
            yield f"{_OWN}: the one that is installed here measures"
        for name in sorted((before.pins.keys() ^ after.pins.keys()) & self._kept & self._base.keys()):
            yield f"{name}: curator-bench needs it, so it cannot be taken away"

    def _end(self, number: int) -> Recipe:
        own, other = self._lists[number], self._lists[1 - number]
        pins = {name: line for name, line in own.pins.items() if name != _OWN}
        missing = [line for name, line in pins.items() if not self._is_here(name, line)]
        gone = other.pins.keys() - own.pins.keys() - own.others.keys() - self._kept
        without = frozenset(gone & self._base.keys())
        return self._keyed(Recipe(own.name, tuple(sorted(missing)), self._options, without, with_dependencies=True))

    def _is_here(self, name: str, line: str) -> bool:
        """True if this Python has what a line installs. What both sides have from one URL is taken to be that."""
        if _url_line(line):
            return name in self._base and all(one.pins.get(name) == line for one in self._lists)
        return line == f"{line.partition('=')[0]}=={self._version_here(name)}" and "[" not in line

    def _version_here(self, name: str) -> str:
        return self._base[name][0] if name in self._base else ""

    def _needed_here(self) -> frozenset[str]:
        """Return the packages that curator-bench needs here, and those that install others."""
        found, left = {_OWN, *_INSTALLERS}, [_OWN]
        while left:
            _, requires = self._base.get(left.pop(), ("", ()))
            new = {name for line in requires for name in _wanted_name(line)} - found
            found |= new
            left += new
        return frozenset(found)

    def _keyed(self, recipe: Recipe) -> Recipe:
        base = [f"{name}=={version}" for name, (version, _) in sorted(self._base.items())]
        how = "resolved" if recipe.with_dependencies else "alone"
        parts = [sys.executable, sys.version, *base, how, *recipe.options, *recipe.pins, *sorted(recipe.without)]
        key = hashlib.sha256("\0".join(parts).encode("utf-8", "surrogateescape")).hexdigest()
        return replace(recipe, key=key)


def _build(venv: Venv, recipe: Recipe) -> None:
    shutil.rmtree(venv.folder, ignore_errors=True)
    venv.log.unlink(missing_ok=True)
    venv.create()
    if recipe.pins:
        file = venv.folder / "wanted.txt"
        file.write_text("".join(f"{line}\n" for line in recipe.pins), "utf-8")
        alone = [] if recipe.with_dependencies else ["--no-deps"]
        venv.install([*alone, *recipe.options, "--requirement", str(file)])
    is_usable, said = has_curator_bench(venv.python, {})
    if not is_usable:
        raise BenchError(f"{venv.name}: curator-bench does not run with these packages: {said}")


def _url_line(line: str) -> str:
    """Return a line if it names a URL, else nothing."""
    return line if "@" in line else ""


@functools.cache
def _wanted_name(line: str) -> tuple[str, ...]:
    try:
        requirement = Requirement(line)
    except InvalidRequirement:
        return ()
    return (canonicalize_name(requirement.name),) if is_wanted(requirement) else ()
