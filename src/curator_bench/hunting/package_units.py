"""Finds the differences of two environments, as changes that can be made one by one. Pure functions."""

from __future__ import annotations

import functools
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from packaging.markers import default_environment
from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name
from packaging.version import InvalidVersion


@dataclass(frozen=True, slots=True)
class Installed:
    """A package in an environment."""

    version: str
    requires: tuple[str, ...] = ()
    """Its requirements, as its metadata has them."""
    pin: str = ""
    """The line that installs it, if that is not NAME==VERSION: one with a URL."""

    @property
    def said(self) -> str:
        """The version, or where it comes from."""
        return self.pin.partition("@")[2].strip() or self.version


Packages: TypeAlias = Mapping[str, Installed]
"""Packages by their normalized names."""


@dataclass(frozen=True, slots=True)
class PackageChange:
    """One package that differs. None stands for absent."""

    name: str
    before: str | None
    after: str | None

    def __str__(self) -> str:
        if self.before is None:
            return f"{self.name} added ({self.after})"
        if self.after is None:
            return f"{self.name} removed ({self.before})"
        return f"{self.name} {self.before} → {self.after}"


@dataclass(frozen=True, slots=True)
class Unit:
    """Packages that can only be changed together, and the numbers of the units that must be changed with them."""

    changes: tuple[PackageChange, ...]
    needs: frozenset[int] = frozenset()

    @property
    def names(self) -> frozenset[str]:
        return frozenset(one.name for one in self.changes)

    def __str__(self) -> str:
        return ", ".join(map(str, self.changes))


def changes_between(before: Packages, after: Packages, fixed: Collection[str] = ()) -> list[PackageChange]:
    """Return the packages that differ, but for the fixed ones."""
    names = sorted((before.keys() | after.keys()) - set(fixed))
    sides = ((name, before.get(name), after.get(name)) for name in names)
    return [
        PackageChange(name, None if old is None else old.said, None if new is None else new.said)
        for name, old, new in sides
        if old is None or new is None or old.said != new.said
    ]


def units_of(changes: Sequence[PackageChange], before: Packages, after: Packages) -> list[Unit]:
    """Group changes into units, in an order in which each comes after all it needs.

    A new version may require something of another package that only its new version is, or an old version something
    that only an old one is. So the two needs each other, or one the other.
    """
    by_name = {one.name: one for one in changes}
    reach = _reachable(by_name, _needs(by_name, before, after))
    groups = {frozenset(other for other in reach[name] if name in reach[other]) for name in by_name}
    ordered = sorted(groups, key=lambda group: (len(reach[min(group)]), min(group)))
    place = {name: number for number, group in enumerate(ordered) for name in group}
    return [
        Unit(
            tuple(by_name[name] for name in sorted(group)),
            frozenset(place[other] for other in reach[min(group)] - group),
        )
        for group in ordered
    ]


def _needs(names: Collection[str], before: Packages, after: Packages) -> dict[str, set[str]]:
    """Return, for each package, those that must be changed if it is."""
    found: dict[str, set[str]] = {name: set() for name in names}
    for name in names:
        for other in found.keys() & set(_bound_to(name, after, before)):
            found[name].add(other)
        for other in found.keys() & set(_bound_to(name, before, after)):
            found[other].add(name)
    return found


def _bound_to(name: str, here: Packages, there: Packages) -> Iterator[str]:
    """Yield the packages that this one, as it is here, cannot have as they are there."""
    for requirement in _requirements(name, here):
        if _is_met(requirement, here) and not _is_met(requirement, there):
            yield canonicalize_name(requirement.name)


def _requirements(name: str, packages: Packages) -> Iterator[Requirement]:
    """Yield what a package requires, including its extras that all of the environment may be there for."""
    of_extras: dict[str, list[Requirement]] = {}
    for requirement in _parsed(packages[name].requires if name in packages else ()):
        if is_wanted(requirement):
            yield requirement
        else:
            for extra in _extras(requirement):
                of_extras.setdefault(extra, []).append(requirement)
    for requirements in of_extras.values():
        if all(_is_met(one, packages) for one in requirements):
            yield from requirements


@functools.cache
def _machine() -> dict[str, str]:
    return {key: str(value) for key, value in default_environment().items()}


def is_wanted(requirement: Requirement, extra: str = "") -> bool:
    """True if its marker holds for this Python on this machine."""
    return requirement.marker is None or requirement.marker.evaluate({**_machine(), "extra": extra})


def _parsed(lines: Sequence[str]) -> Iterator[Requirement]:
    for line in lines:
        try:
            yield Requirement(line)
        except InvalidRequirement:
            continue  # an old package, which pip does not understand either


def _extras(requirement: Requirement) -> Iterator[str]:
    """Yield the extras that a requirement is for."""
    words = str(requirement.marker).replace("(", " ").replace(")", " ").split()
    named = {words[place + 2].strip("\"'") for place, word in enumerate(words[:-2]) if word == "extra"}
    yield from (extra for extra in sorted(named) if is_wanted(requirement, extra))


def _is_met(requirement: Requirement, packages: Packages) -> bool:
    found = packages.get(canonicalize_name(requirement.name))
    if found is None:
        return False
    try:
        return requirement.url is not None or requirement.specifier.contains(found.version, prereleases=True)
    except InvalidVersion:
        return True


def _reachable(names: Collection[str], needs: Mapping[str, set[str]]) -> dict[str, frozenset[str]]:
    """Return each package with all it needs, directly or not."""
    found: dict[str, frozenset[str]] = {}
    for name in names:
        seen, left = {name}, [name]
        while left:
            new = needs[left.pop()] - seen
            seen |= new
            left += new
        found[name] = frozenset(seen)
    return found
