"""Schema revisions: the one a database has, the one this code needs, and the upgrade between them.

Alembic is imported only for an upgrade. The newest revision is read from the first lines of the scripts.
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
        """Newest revision, for which this code is written. Raises BenchError unless there is exactly one."""
        parents = {parent for parents in self.revisions.values() for parent in parents}
        heads = sorted(self.revisions.keys() - parents)
        if len(heads) != 1:
            raise BenchError(f"{self.folder / 'versions'} should hold one newest revision, but holds {heads}")
        return heads[0]

    @cached_property
    def revisions(self) -> dict[str, tuple[str, ...]]:
        """Each revision with its parents."""
        scripts = sorted((self.folder / "versions").glob("*.py"))
        return dict(_revision_of(script) for script in scripts)

    def current(self, connection: Connection) -> str | None:
        """Revision of the database; None if it has no schema of ours yet."""
        if not connection.dialect.has_table(connection, _VERSIONS):
            return None
        rows = connection.exec_driver_sql(f"SELECT version_num FROM {_VERSIONS}").fetchall()
        if len(rows) > 1:
            raise BenchError(f"the database says it is at several revisions at once: {sorted(row[0] for row in rows)}")
        return str(rows[0][0]) if rows else None

    def knows(self, revision: str | None) -> bool:
        return revision is None or revision in self.revisions

    def upgrade(self, connection: Connection, revision: str = "head") -> None:
        """Upgrade to the revision within the connection's transaction."""
        from alembic import command
        from alembic.config import Config

        config = Config()
        config.set_main_option("script_location", str(self.folder).replace("%", "%%"))
        config.set_main_option("path_separator", "os")
        config.attributes["connection"] = connection
        command.upgrade(config, revision)


def shipped_folder() -> Path:
    """Folder of the migrations: inside an installed package, or at the top of a clone."""
    package = Path(__file__).resolve().parents[1]
    installed = package / "alembic"
    return installed if installed.is_dir() else package.parents[1] / "alembic"


def is_ours(connection: Connection) -> bool:
    """True if the database has a schema of ours, of any revision."""
    return connection.dialect.has_table(connection, _OUR_TABLE)


def _revision_of(script: Path) -> tuple[str, tuple[str, ...]]:
    said = dict(_assignments(script))
    return next(iter(said.get("revision", ())), script.stem), said.get("down_revision", ())


def _assignments(script: Path) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Yield the revision and its parents as the script sets them.

    The script is read as text, not run. `ast` is not used either: on Python 3.11 it fails when two threads use it at
    once, and a background thread here would break pytest's own use.
    """
    for line in script.read_text(encoding="utf-8").splitlines():
        name = line.partition(":")[0].partition("=")[0].strip()
        if name in ("revision", "down_revision"):
            yield name, tuple(_TEXT.findall(line.partition("=")[2]))
