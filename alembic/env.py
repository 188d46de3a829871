"""What alembic runs for every command: which database, which models, online or as an SQL script."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from logging.config import fileConfig
from pathlib import Path
from typing import Any, Literal

from alembic import context
from sqlalchemy import Connection, types

from curator_bench.store import column_types
from curator_bench.store.database import database_url, migrating
from curator_bench.store.schema import Base


def named_database() -> str:
    """`alembic -x url=…`, a path or a URL, else what alembic.ini says."""
    said = context.get_x_argument(as_dictionary=True).get("url")
    return str(said or context.config.get_main_option("sqlalchemy.url"))


def migrate_offline() -> None:
    """Write the SQL instead of running it (`alembic upgrade head --sql`)."""
    configure(url=database_url(named_database()), literal_binds=True, dialect_opts={"paramstyle": "named"})
    with context.begin_transaction():
        context.run_migrations()


def migrate_online() -> None:
    """On the connection the plugin hands over; as a command, on one of our own."""
    given = context.config.attributes.get("connection")
    if given is not None:
        migrate(given)
    elif is_comparison():
        with at_head() as connection:
            migrate(connection)
    else:
        with migrating(database_url(named_database())) as connection:
            migrate(connection)


def migrate(connection: Connection) -> None:
    configure(connection=connection)
    with context.begin_transaction():
        context.run_migrations()


def configure(**options: Any) -> None:
    context.configure(
        target_metadata=Base.metadata,
        # SQLite cannot alter most of a table in place; a batch makes it anew. Other databases take the same script.
        render_as_batch=True,
        render_item=render_item,
        transactional_ddl=True,  # of SQLite alembic does not expect it, but our connections begin where they should
        **options,
    )


def is_comparison() -> bool:
    """Whether the command is `revision --autogenerate` or `check`."""
    command: Any = context.config.cmd_opts
    return getattr(command, "autogenerate", False) or (command is not None and command.cmd[0].__name__ == "check")


@contextmanager
def at_head() -> Iterator[Connection]:
    """A new revision is what the models have and the newest revision has not, whatever the database here is at."""
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory, "head.db")
        command = [sys.executable, "-m", "alembic", "--config", str(context.config.config_file_name)]
        subprocess.run([*command, "-x", f"url={path}", "upgrade", "head"], check=True)
        with migrating(database_url(path)) as connection:
            yield connection


def render_item(kind: str, item: Any, autogen_context: Any) -> str | Literal[False]:
    """A script must mean the same for ever: it names what a column is in the database, not a type of ours."""
    if kind == "type" and isinstance(item, types.TypeDecorator) and type(item).__module__ == column_types.__name__:
        return f"sa.{type(item.impl_instance).__name__}({'timezone=True' if is_moment(item) else ''})"
    return False


def is_moment(item: Any) -> bool:
    return isinstance(item, column_types.Moment)


# Only as a command: called from the plugin, the logging of the process is not ours to set up.
if context.config.cmd_opts is not None and context.config.config_file_name is not None:
    fileConfig(context.config.config_file_name, disable_existing_loggers=False)

if context.is_offline_mode():
    migrate_offline()
else:
    migrate_online()
