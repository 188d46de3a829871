"""Reads the sides of `bisect --packages`: the packages of a lock file, of a requirements file, or of a session."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name

from curator_bench.errors import BenchError
from curator_bench.hunting.package_units import is_wanted
from curator_bench.hunting.pip_settings import INDEX_OPTIONS
from curator_bench.hunting.uv_locks import is_uv_lock, locked_packages

_WITH_A_VALUE = {
    **dict(zip(INDEX_OPTIONS, INDEX_OPTIONS, strict=True)),
    "-i": next(name for name in INDEX_OPTIONS if "extra" not in name),
    "-f": "--find-links",
    "--find-links": "--find-links",
    "--trusted-host": "--trusted-host",
    "--no-binary": "--no-binary",
    "--only-binary": "--only-binary",
}
_ALONE = ("--no-index", "--pre", "--prefer-binary", "--require-hashes", "--use-pep517")
_DROPPED = ("--require-hashes",)
_INCLUDES, _EDITABLE = ("-r", "--requirement"), ("-e", "--editable")
_COMMENT = re.compile(r"(^|\s)#.*")
_HASH = re.compile(r"\s--hash[= ]\S+")
_EXPECTED = "expected NAME==VERSION, as `pip freeze` or a lock file has it"


@dataclass(frozen=True, slots=True)
class PackageList:
    """The packages of one side. Others are as they are in this environment."""

    name: str
    pins: Mapping[str, str]
    """For each package, by its normalized name, the line that installs it."""
    options: tuple[tuple[str, ...], ...] = ()
    """Options for pip, each with its value."""
    others: Mapping[str, str] = field(default_factory=dict)
    """Packages that cannot be installed from it, with the reason."""
    python: str = ""
    """The version of Python it was recorded with; empty if that is not known."""
    machine: Mapping[str, str] = field(default_factory=dict)
    """Facts of the machine it was recorded on."""

    def parts(self) -> list[str]:
        """Return everything that defines it."""
        return [*map(" ".join, self.options), *(line for _, line in sorted(self.pins.items()))]


def read_packages(file: Path) -> PackageList:
    """Read a file. Raises BenchError with all mistakes."""
    text = _text_of(file)
    if is_uv_lock(text):
        pins, others = locked_packages(text, file)
        return _not_empty(PackageList(str(file), pins, others=others))
    reader = _RequirementsReader()
    reader.read(file, text)
    if reader.mistakes:
        raise BenchError("\n".join(reader.mistakes))
    options = tuple(dict.fromkeys(reader.options))
    return _not_empty(PackageList(str(file), reader.pins, options, reader.others))


def _not_empty(found: PackageList) -> PackageList:
    if not found.pins:
        raise BenchError(f"{found.name}: no packages in it; {_EXPECTED}")
    return found


def _text_of(file: Path) -> str:
    try:
        return file.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise BenchError(f"{file} cannot be read: {getattr(error, 'strerror', None) or error}") from error


class _RequirementsReader:
    """Collects the lines of a requirements file, and of those it includes."""

    def __init__(self) -> None:
        self.pins: dict[str, str] = {}
        self.options: list[tuple[str, ...]] = []
        self.others: dict[str, str] = {}
        self.mistakes: list[str] = []
        self._read: set[Path] = set()

    def read(self, file: Path, text: str) -> None:
        self._read.add(file.resolve())
        for number, line in _lines(text):
            try:
                self._take(line, file)
            except (BenchError, ValueError) as error:
                self.mistakes.append(f"{file}, line {number}: {error}")

    def _take(self, line: str, file: Path) -> None:
        if not line.startswith("-"):
            self._take_requirement(line)
            return
        words = shlex.split(line)
        option, _, value = words[0].partition("=")
        value = value or " ".join(words[1:])
        if option in _INCLUDES:
            included = file.parent / value
            if included.resolve() not in self._read:
                self.read(included, _text_of(included))
        elif option in _EDITABLE:
            name = value.partition("#egg=")[2].partition("&")[0] or Path(value.partition("#")[0]).name
            self.others[canonicalize_name(name)] = "an editable installation, whose commits `bisect` tells apart"
        elif option in _WITH_A_VALUE and value:
            self.options.append((_WITH_A_VALUE[option], _absolute(value, file)))
        elif option in _ALONE:
            self.options += [] if option in _DROPPED else [(option,)]
        else:
            raise BenchError(f"found {line!r}, {_EXPECTED}")

    def _take_requirement(self, line: str) -> None:
        try:
            requirement = Requirement(line)
        except InvalidRequirement:
            raise BenchError(f"found {line!r}, {_EXPECTED}") from None
        if not is_wanted(requirement):
            return
        name = canonicalize_name(requirement.name)
        exact = [one for one in requirement.specifier if one.operator in ("==", "===") and "*" not in one.version]
        if requirement.url is None and (not exact or len(requirement.specifier) > 1):
            raise BenchError(f"found {line!r}, {_EXPECTED}")
        requirement.marker = None
        pin = str(requirement) if requirement.url is None else f"{name} @ {requirement.url}"
        if self.pins.setdefault(name, pin) != pin:
            raise BenchError(f"found {line!r}, but {self.pins[name]!r} before")


def _lines(text: str) -> Iterator[tuple[int, str]]:
    """Yield the lines with their numbers, without comments and hashes. A line ending in a backslash goes on."""
    begun, first = "", 0
    for number, line in enumerate(text.splitlines(), 1):
        first = first if begun else number
        begun += _COMMENT.sub("", line)
        if begun.endswith("\\"):
            begun = begun[:-1]
            continue
        if whole := _HASH.sub("", begun).strip():
            yield first, whole
        begun = ""


def _absolute(value: str, file: Path) -> str:
    """Return a path beside the file as one from the root; a URL as it is."""
    beside = file.parent / value
    return str(beside.resolve()) if "://" not in value and beside.exists() else value
