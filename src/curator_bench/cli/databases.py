"""What the subcommands that look into a database share: which one, and how it is opened."""

from __future__ import annotations

import os
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from curator_bench.store.database import Database


def _default() -> str:
    """As the plugin has it, in a folder without settings of pytest."""
    return os.environ.get("CURATOR_BENCH_DB") or os.environ.get("DB_NAME") or "benchmark.db"


db_option = click.option(
    "--db",
    "database",
    metavar="PATH|URL",
    default=_default,
    help="the database; otherwise CURATOR_BENCH_DB, DB_NAME or benchmark.db in this folder",
)


def absolute(named: str) -> str:
    """For a process that works in another folder."""
    return named if "://" in named else os.path.abspath(os.path.expanduser(named))


def reading(named: str) -> AbstractContextManager[Database]:
    from curator_bench.store.opening import to_read

    return to_read(named)


def writing(named: str) -> AbstractContextManager[Database]:
    """Opened so, a database also learns which of its runs were killed."""
    import socket

    from curator_bench.provenance.environment import boot_id
    from curator_bench.store.opening import to_write
    from curator_bench.store.orphans import Here

    return to_write(named, Here(socket.gethostname(), boot_id(), _process_start))


def _process_start(pid: int) -> float | None:
    from curator_bench.measure.processes import identify

    process = identify(pid)
    return process.started if process else None
