"""The names a user may give a database: a path or an SQLAlchemy URL. Passwords are never shown."""

from __future__ import annotations

import importlib.util
import os
import re
from pathlib import Path

from sqlalchemy import URL, make_url
from sqlalchemy.exc import ArgumentError

from curator_bench.errors import BenchError, MissingExtra
from curator_bench.masking import Mask

_IS_URL = re.compile(r"[a-z][a-z0-9]*(\+[a-z0-9_]+)?://", re.IGNORECASE)
_EXPECTED = "expected a path, sqlite:///… or postgresql://…"
_OWN_DRIVERS = ("sqlite", "sqlite+pysqlite", "postgresql", "postgresql+psycopg", "postgres")


def database_url(named: str | os.PathLike[str], directory: Path | None = None) -> URL:
    """Parse the name of a database. Relative paths start at `directory`, by default the working directory."""
    text = os.fspath(named)
    if not text:
        raise BenchError(f"no database is named: {_EXPECTED}")
    if not _IS_URL.match(text):
        return _of_path(text, directory)
    url = _parsed(text)
    if url.drivername not in _OWN_DRIVERS:
        raise BenchError(f"{shown(url)}: {url.drivername} is not a database that curator-bench supports: {_EXPECTED}")
    return _of_sqlite(url, directory) if url.drivername.startswith("sqlite") else _of_postgresql(url)


def shown(url: URL) -> str:
    """Name of the database for messages: a path, or a URL without any password."""
    if url.drivername == "sqlite" and not url.query:
        return str(url.database)
    return Mask().hide(url.render_as_string(hide_password=True))


def _parsed(text: str) -> URL:
    try:
        return make_url(text)
    except (ArgumentError, ValueError):
        raise BenchError(f"{Mask().hide(text)} is not a database URL: {_EXPECTED}") from None


def _of_path(text: str, directory: Path | None) -> URL:
    return URL.create("sqlite", database=_absolute(text, directory))


def _of_sqlite(url: URL, directory: Path | None) -> URL:
    if url.query.get("uri") == "true":  # an SQLite URI is passed on as it is
        return url.set(drivername="sqlite")
    if url.database in (None, "", ":memory:"):
        raise BenchError(f"{url.render_as_string()}: a database in memory is lost when pytest ends; name a file")
    return url.set(drivername="sqlite", database=_absolute(str(url.database), directory))


def _of_postgresql(url: URL) -> URL:
    if importlib.util.find_spec("psycopg") is None:
        raise MissingExtra(f"a PostgreSQL database ({shown(url)})", "postgres")
    return url.set(drivername="postgresql+psycopg")


def _absolute(path: str, directory: Path | None) -> str:
    return os.path.normpath(os.path.join(directory or os.getcwd(), os.path.expanduser(path)))
