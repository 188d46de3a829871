"""The revisions of the schema: which a database is at, which this code wants, and the way from one to the other.

Alembic itself is imported only when there is a way to go: a look at the first lines of its scripts tells the newest.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path

from sqlalchemy import Connection

from curator_bench.errors import BenchError

_VERSIONS = "alembic_version"
_OUR_TABLE = "bench_session"
_TEXT = re.compile("[\"']([^\"']*)[\"']")


class Migrations:
    """The scripts in one alembic folder."""

    def __init__(self, folder: Path | None = None) -> None:
        self.folder = folder or shipped_folder()

    @property
    def head(self) -> str:
        """The revision this code is written for."""
        parents = {parent for parents in self.revisions.values() for parent in parents}
        heads = sorted(self.revisions.keys() - parents)
        if len(heads) != 1:
            raise BenchError(f"{self.folder / 'versions'} should hold one newest revision, but holds {heads}")
        return heads[0]

    @cached_property
    def revisions(self) -> dict[str, tuple[str, ...]]:
        """Each with those it follows."""
        scripts = sorted((self.folder / "versions").glob("*.py"))
        return dict(_revision_of(script) for script in scripts)

    def current(self, connection: Connection) -> str | None:
        """What the database is at; None where nothing of ours has been made yet."""
        if not connection.dialect.has_table(connection, _VERSIONS):
            return None
        rows = connection.exec_driver_sql(f"SELECT version_num FROM {_VERSIONS}").fetchall()
        if len(rows) > 1:
            raise BenchError(f"the database says it is at several revisions at once: {sorted(row[0] for row in rows)}")
        return str(rows[0][0]) if rows else None

    def knows(self, revision: str | None) -> bool:
        return revision is None or revision in self.revisions

    def upgrade(self, connection: Connection, revision: str = "head") -> None:
        """Goes there within the transaction of the connection."""
        from alembic import command
        from alembic.config import Config

        config = Config()
        config.set_main_option("script_location", str(self.folder).replace("%", "%%"))
        config.set_main_option("path_separator", "os")
        config.attributes["connection"] = connection
        command.upgrade(config, revision)


def shipped_folder() -> Path:
    """Inside of an installed package; in a clone, at the top of it."""
    package = Path(__file__).resolve().parents[1]
    installed = package / "alembic"
    return installed if installed.is_dir() else package.parents[1] / "alembic"


def is_ours(connection: Connection) -> bool:
    """Whether a schema of ours was ever made there, whatever its revision."""
    return connection.dialect.has_table(connection, _OUR_TABLE)


def _revision_of(script: Path) -> tuple[str, tuple[str, ...]]:
    said = dict(_assignments(script))
    return next(iter(said.get("revision", ())), script.stem), said.get("down_revision", ())


def _assignments(script: Path) -> Iterator[tuple[str, tuple[str, ...]]]:
    """What the script sets its revision and its parents to; read, not run. Not by `ast` either: Python 3.11 gets that
    wrong where two threads use it at once, and a thread that looks back would trip pytest up."""
    for line in script.read_text(encoding="utf-8").splitlines():
        name = line.partition(":")[0].partition("=")[0].strip()
        if name in ("revision", "down_revision"):
            yield name, tuple(_TEXT.findall(line.partition("=")[2]))
