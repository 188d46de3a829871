"""The packages that runs of a session were measured with, as the database has them."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING

from packaging.utils import canonicalize_name

from curator_bench.causes.recorded import facts_of
from curator_bench.errors import BenchError
from curator_bench.hunting.package_lists import PackageList
from curator_bench.store.backgrounds import run_facts
from curator_bench.store.hunts import newest_run

if TYPE_CHECKING:
    from sqlalchemy import Connection

_COMMIT = re.compile("[0-9a-f]{7,64}")


def recorded_packages(connection: Connection, named: str, sessions: Collection[int], entry: str) -> PackageList:
    """Return the packages of the newest run of the entry in these sessions, which a user has named."""
    run = newest_run(connection, sessions, entry)
    if run is None:
        raise BenchError(f"{named}: no run of {entry} is recorded in it")
    facts = facts_of(connection, [run])[run]
    if facts.packages is None:
        raise BenchError(f"{named}: its runs have recorded no packages; name a lock file or the output of `pip freeze`")
    commits: dict[str, str] = {canonicalize_name(name): said for name, said in (facts.commits or {}).items() if name}
    others = {
        name: f"a package under test at commit {said[:12]}: `bisect` without --packages tells its commits apart"
        for name, said in commits.items()
        if _COMMIT.fullmatch(said)
    }
    pins = {name: line for name, line in _pins(facts.packages).items() if name not in others}
    python = run_facts(connection, [run])[run].python_version or ""
    return PackageList(named, pins, others=others, python=python, machine=facts.machine or {})


def _pins(packages: Mapping[str, str]) -> dict[str, str]:
    return {(key := canonicalize_name(name)): f"{key}=={version}" for name, version in packages.items()}
