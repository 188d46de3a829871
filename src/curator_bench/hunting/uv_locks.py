"""Lock files of uv: the packages that they install here."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from packaging.markers import InvalidMarker, Marker
from packaging.utils import canonicalize_name

from curator_bench.errors import BenchError

_OF_THE_PROJECT = ("virtual", "editable")
_LOCAL = ("directory", "path")


def is_uv_lock(text: str) -> bool:
    return "[[package]]" in text


def locked_packages(text: str, file: Path) -> tuple[dict[str, str], dict[str, str]]:
    """Return the line for pip of each package that a lock file installs on this machine, without groups and extras.

    The second mapping has the packages that are not installed from it, with the reason.
    """
    try:
        document = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise BenchError(f"{file}: not a lock file of uv: {error}") from error
    packages = [one for one in document.get("package", []) if isinstance(one, dict) and one.get("name")]
    if not isinstance(document.get("version"), int):
        raise BenchError(f"{file}: not a lock file of uv, which has a number as its `version`")
    pins, others = dict[str, str](), dict[str, str]()
    for one in _installed(packages):
        name, source = canonicalize_name(one["name"]), one.get("source") or {}
        if any(kind in source for kind in (*_OF_THE_PROJECT, *_LOCAL)):
            others[name] = "a folder of the project, whose commits `curator-bench bisect` tells apart"
        else:
            pins[name] = _line(one, source)
    return pins, others


def _installed(packages: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Return the packages that the project needs here; all of them where no package is the project."""
    left = [one for one in packages if any(kind in (one.get("source") or {}) for kind in _OF_THE_PROJECT)]
    if not left:
        return list(packages)
    found: list[Mapping[str, Any]] = []
    while left:
        one = left.pop()
        if one not in found:
            found.append(one)
            left += _needed(one, packages)
    return found


def _needed(package: Mapping[str, Any], packages: Sequence[Mapping[str, Any]]) -> Iterator[Mapping[str, Any]]:
    for needed in package.get("dependencies", []):
        if not _holds(needed.get("marker")):
            continue
        for one in packages:
            if one["name"] == needed["name"] and needed.get("version") in (None, one.get("version")):
                yield one
                yield from _of_extras(one, needed.get("extra", []), packages)


def _of_extras(
    package: Mapping[str, Any], extras: Sequence[str], packages: Sequence[Mapping[str, Any]]
) -> Iterator[Mapping[str, Any]]:
    by_extra = package.get("optional-dependencies", {})
    for extra in extras:
        yield from _needed({"dependencies": by_extra.get(extra, [])}, packages)


def _holds(marker: str | None) -> bool:
    if marker is None:
        return True
    try:
        return Marker(marker).evaluate()
    except InvalidMarker:
        return True


def _line(package: Mapping[str, Any], source: Mapping[str, Any]) -> str:
    name = canonicalize_name(package["name"])
    if "git" in source:
        url, _, commit = str(source["git"]).partition("#")
        return f"{name} @ git+{url.partition('?')[0]}{'@' if commit else ''}{commit}"
    if "url" in source:
        return f"{name} @ {source['url']}"
    return f"{name}=={package.get('version', '')}"
