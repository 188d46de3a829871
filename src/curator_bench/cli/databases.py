"""The database option of subcommands, and functions to open the database."""

from __future__ import annotations

import os
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING

import click
from click.core import ParameterSource

if TYPE_CHECKING:
    from curator_bench.store.database import Database
    from curator_bench.store.dead_runs import Here


def _default() -> str:
    """Return the database that `pytest --benchmark` records into here."""
    from curator_bench.options.rootdir import database_from

    return database_from(Path.cwd(), os.environ)


def _named(context: click.Context, parameter: click.Parameter, value: str) -> str:
    """Show which database is used, unless the user named it."""
    if context.get_parameter_source(str(parameter.name)) is ParameterSource.DEFAULT and not context.resilient_parsing:
        from curator_bench.cli import tables
        from curator_bench.masking import Mask

        tables.say(f"Database: {Mask().hide(value)}", err=True)
    return value


db_option = click.option(
    "--db",
    "database",
    metavar="PATH|URL",
    default=_default,
    callback=_named,
    help="the database (default: the one that `pytest --benchmark` uses here)",
)


def absolute(named: str) -> str:
    """Return the absolute path, for a process that works in another folder. A URL stays as it is."""
    return named if "://" in named else os.path.abspath(os.path.expanduser(named))


_OPENED = "curator_bench.databases"
"""Key in a click context of the databases that the command opened."""


def reading(named: str) -> AbstractContextManager[Database]:
    from curator_bench.store.opening import to_read

    _note(named)
    return to_read(named)


def writing(named: str) -> AbstractContextManager[Database]:
    """Open a database for writing, which also marks killed runs as interrupted."""
    from curator_bench.store.opening import to_write

    _note(named)
    return to_write(named, here())


def here() -> Here:
    """Return this machine, and how to look up its processes."""
    import socket

    from curator_bench.provenance.environment import boot_id
    from curator_bench.store.dead_runs import Here

    return Here(socket.gethostname(), boot_id(), _process_start)


def _note(named: str) -> None:
    context = click.get_current_context(silent=True)
    if context is not None:
        context.meta.setdefault(_OPENED, []).append(named)


def explanation(context: click.Context) -> str:
    """Explain a failed command by values that another program wrote into a database it opened; empty if there are none.

    A value may be read well and fail only when it is shown.
    """
    from curator_bench.store.opening import damage_of

    return next(filter(None, map(damage_of, context.meta.get(_OPENED, ()))), "")


def _process_start(pid: int) -> float | None:
    from curator_bench.measure.processes import identify

    process = identify(pid)
    return process.started if process else None
