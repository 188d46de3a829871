"""The dashboard of the record, put where people see it: in a folder, or at a URL."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias

from curator_bench.errors import BenchError
from curator_bench.hunting.children import scratch_folder
from curator_bench.sharing.places import put_folder
from curator_bench.sharing.record import Record

Build: TypeAlias = Callable[[str, Path], None]
"""Write the dashboard of a database into a folder."""


def publish(record: Record, site: str, build: Build) -> None:
    """Write the dashboard of the record into a folder or to a URL. Raises BenchError if there is no record."""
    with record.opened() as database:
        if database is None:
            raise BenchError(f"there is no record at {record.shown} yet; to add runs: curator-bench record add")
        if "://" not in site or site.startswith("file://"):
            build(database, Path(site.removeprefix("file://")).expanduser())
            return
        with scratch_folder() as folder:
            build(database, folder / "site")
            put_folder(folder / "site", site)
