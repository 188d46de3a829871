"""The dashboard of the record, put where people see it: in a folder, or at a URL."""

from __future__ import annotations

from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import TypeAlias

from curator_bench.errors import BenchError, MissingExtra
from curator_bench.hunting.children import scratch_folder
from curator_bench.sharing.places import put_folder, refuse_unknown
from curator_bench.sharing.record import Record

Build: TypeAlias = Callable[[str, Path], None]
"""Write the dashboard of a database into a folder."""


def refuse_unusable(site: str) -> None:
    """Raise BenchError if no dashboard can be published there, before hours are spent on measuring."""
    if find_spec("jinja2") is None:
        raise MissingExtra("the dashboard", "report")
    if _is_store(site):
        refuse_unknown(site)


def publish(record: Record, site: str, build: Build) -> None:
    """Write the dashboard of the record into a folder or to a URL. Raises BenchError if there is no record."""
    refuse_unusable(site)
    with record.opened() as database:
        if database is None:
            raise BenchError(f"there is no record at {record.shown} yet; to add runs: curator-bench record add")
        if not _is_store(site):
            build(database, Path(site.removeprefix("file://")).expanduser())
            return
        with scratch_folder() as folder:
            build(database, folder / "site")
            put_folder(folder / "site", site)


def _is_store(site: str) -> bool:
    return "://" in site and not site.startswith("file://")
