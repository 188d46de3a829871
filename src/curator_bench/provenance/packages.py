"""Installed packages: those of Python and of conda, and the version and commit of those under test."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from urllib.request import url2pathname

from curator_bench.masking import Mask
from curator_bench.provenance import git
from curator_bench.values import Subject

_INSTALLED_FOLDERS = {"site-packages", "dist-packages"}
_COMMIT = re.compile("[0-9a-f]{7,64}")
_CHANNEL_TOKEN = re.compile(r"/t/[^/]+/")


@dataclass(frozen=True, slots=True)
class SubjectState(Subject):
    """A package under test as installed here. None means not installed, or unknown."""

    source: str | None = None
    """`editable`, `vcs` (installed from a repository), `checkout` (imported from one), else `installed`."""
    branch: str | None = None
    is_bisecting: bool = False
    """True while a git bisect is under way in its checkout."""


def packages_text() -> str:
    """List every installed package as name==version, sorted.

    Origins are left out, because a URL may contain a password.
    """
    return "".join(f"{name}=={version}\n" for name, version in installed().items())


def installed() -> dict[str, str]:
    """Return the version of every installed package, by name."""
    versions: dict[str, str] = {}
    for distribution in metadata.distributions():
        name, version = _name_and_version(distribution)
        if name:  # a half-removed package has no name
            versions.setdefault(name, version)  # the first one found is the one that is imported
    return {name: versions[name] for name in sorted(versions, key=str.lower)}


def _name_and_version(distribution: metadata.Distribution) -> tuple[str, str]:
    """Read only name and version: parsing all of `distribution.metadata` takes 0.1 s for 200 packages."""
    fields = {"Name": "", "Version": ""}
    for line in (distribution.read_text("METADATA") or distribution.read_text("PKG-INFO") or "").splitlines():
        key, _, value = line.partition(": ")
        if key in fields:
            fields[key] = value.strip()
        if not line or all(fields.values()):
            break
    return fields["Name"], fields["Version"]


def package_version(name: str) -> str | None:
    distribution = _distribution(name)
    return distribution.version if distribution else None


def subject_state(package: str) -> SubjectState:
    """Look up the version of a package (named by distribution or module), and its commit if known."""
    distribution = _distribution(package) or _distribution_of_module(package)
    if distribution is None:
        return _imported_from_checkout(package, None) or SubjectState(package)
    origin = _origin(distribution)
    version = distribution.version
    if "vcs_info" in origin:
        commit = origin["vcs_info"].get("commit_id")
        branch = origin["vcs_info"].get("requested_revision")
        return SubjectState(package, version, commit, dirty=False, source="vcs", branch=branch)
    if origin.get("dir_info", {}).get("editable"):
        folder = Path(url2pathname(urlsplit(origin["url"]).path))
        state, checkout = SubjectState(package, version, source="editable"), git.describe(folder)
        return _of_checkout(state, checkout) if checkout else state
    return _imported_from_checkout(package, version) or SubjectState(package, version, source="installed")


def commits_of_package(repo: Path, package: str, before: str, since: str) -> list[git.Commit] | None:
    """List the commits of a package under test, or of `repo` if it is "", newest first.

    The commits of a package are looked for in `repo`, then in the checkout it is imported from. None if neither has
    them, and for versions.
    """
    if not all(map(_COMMIT.fullmatch, (before, since))):
        return None
    found = git.commits_between(repo, before, since)
    if found is None and package and (folder := _checkout_folder(package)):
        return git.commits_between(folder, before, since)
    return found


def commit_lines(repo: Path, package: str, before: str, since: str) -> list[str] | None:
    """Word the same commits, one line each."""
    found = commits_of_package(repo, package, before, since)
    return None if found is None else [f"{one.sha[:8]} {one.date} {one.author}: {one.subject}" for one in found]


def _checkout_folder(package: str) -> Path | None:
    """Return the folder a package is installed from, if it is editable or imported from a checkout."""
    distribution = _distribution(package) or _distribution_of_module(package)
    origin = _origin(distribution) if distribution else {}
    if origin.get("dir_info", {}).get("editable"):
        return Path(url2pathname(urlsplit(origin["url"]).path))
    return _imported_folder(package)


def _imported_folder(package: str) -> Path | None:
    """Return the folder a package is imported from, unless that is one of installed packages."""
    return next((folder for folder in _import_folders(package) if not _INSTALLED_FOLDERS & set(folder.parts)), None)


def _distribution(name: str) -> metadata.Distribution | None:
    try:
        return metadata.distribution(name)
    except (metadata.PackageNotFoundError, ValueError):  # ValueError: not a name at all
        return None


def _distribution_of_module(module: str) -> metadata.Distribution | None:
    names = metadata.packages_distributions().get(module)
    return _distribution(names[0]) if names else None


def _origin(distribution: metadata.Distribution) -> Mapping[str, Any]:
    """Origin of the package as PEP 610 records it; empty if it came from an index."""
    try:
        origin = json.loads(distribution.read_text("direct_url.json") or "{}")
    except ValueError:
        return {}
    return origin if isinstance(origin, dict) else {}


def _imported_from_checkout(package: str, version: str | None) -> SubjectState | None:
    """Look up a package imported from a checkout that pip does not know (PYTHONPATH, an old develop install)."""
    folder = _imported_folder(package)
    if folder is None:
        return None
    checkout = git.describe(folder)
    return None if checkout is None else _of_checkout(SubjectState(package, version, source="checkout"), checkout)


def _import_folders(package: str) -> Iterator[Path]:
    name = package.replace("-", "_")
    try:
        spec = find_spec(name) if name.isidentifier() else None
    except (ImportError, ValueError, AttributeError):  # the module has no usable spec
        return
    if spec is not None and spec.has_location and spec.origin:
        yield Path(spec.origin).parent
    elif spec is not None:
        yield from map(Path, spec.submodule_search_locations or ())


def _of_checkout(state: SubjectState, checkout: git.GitState) -> SubjectState:
    return replace(
        state,
        commit=checkout.commit,
        branch=checkout.branch,
        dirty=checkout.dirty,
        is_bisecting=checkout.is_bisecting,
    )


def conda_text(environ: Mapping[str, str]) -> str | None:
    """List for `conda create --file` that recreates the environment; None outside conda."""
    prefix = environ.get("CONDA_PREFIX")
    records = list(_conda_records(Path(prefix) / "conda-meta")) if prefix else []
    if not records:
        return None
    platforms = {str(record["subdir"]) for record in records if record.get("subdir")} - {"noarch"}
    lines = [f"# platform: {', '.join(sorted(platforms)) or 'noarch'}", "@EXPLICIT", *sorted(map(_conda_line, records))]
    return "\n".join(lines) + "\n"


def _conda_records(folder: Path) -> Iterator[Mapping[str, Any]]:
    for file in folder.glob("*.json"):
        try:
            record = json.loads(file.read_bytes())
        except (OSError, ValueError):  # skip an incomplete record
            continue
        if isinstance(record, dict) and record.get("url"):
            yield record


def _conda_line(record: Mapping[str, Any]) -> str:
    """Line for a package: its URL without the login or token of a private channel."""
    address = _CHANNEL_TOKEN.sub("/", Mask().hide(str(record["url"])))
    return f"{address}#{record['md5']}" if record.get("md5") else address
