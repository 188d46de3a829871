"""A database in an SQLite file: opening it, taking turns to write, surviving power loss, copying it."""

from __future__ import annotations

import errno
import logging
import os
import random
import secrets
import sqlite3
import stat
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote_to_bytes

from sqlalchemy import URL, Connection, Engine, create_engine, event
from sqlalchemy.exc import IntegrityError, OperationalError

from curator_bench.files import safe_files
from curator_bench.files.folder_handles import NotUsable
from curator_bench.files.planted import belongs_to_another, everybody_can_create_files_in
from curator_bench.store.storage import WRITE_PATIENCE, Storage

logger = logging.getLogger(__name__)

_PATIENCE_S = 10.0
"""Longest wait inside SQLite: for readers of a file without a write-ahead log, or for recovery after a crash."""
_MIGRATION_PATIENCE_S = 900.0
_TURN_MS = 20
_STEPS_BETWEEN_LOOKS = 1_000_000
"""Steps of SQLite's machine within one statement. Our own statements take far fewer."""
_WRITING = {"mode": "rw"}
_READING = {"mode": "ro"}
_READING_ALONE = {"mode": "ro", "immutable": "1"}
_FILE = "curator_bench_file"
_TRIES = 20
_BESIDE = ("-journal", "-wal", "-shm")
_NAMES_ANOTHER_FILE = bytes.fromhex("d9d505f920a163d7")
"""End of a journal that names a super-journal, which SQLite removes after a recovery."""
_NETWORK = {
    *("9p", "afs", "beegfs", "ceph", "cifs", "coda", "gfs2", "glusterfs", "gpfs", "lustre", "nfs", "nfs4", "ocfs2"),
    *("smb3", "smbfs", "wekafs"),
    *("fuse.ceph-fuse", "fuse.gcsfuse", "fuse.glusterfs", "fuse.goofys", "fuse.juicefs", "fuse.s3fs", "fuse.sshfs"),
}
_CHANCE = random.Random()
"""Waiting times. The generator of the process belongs to tests, which seed it: equal for all workers."""
_MOUNTS = Path("/proc/self/mounts")
_ESCAPES = {r"\040": " ", r"\011": "\t", r"\012": "\n", r"\134": "\\"}


class SqliteStorage:
    """Storage in the SQLite file that the URL names."""

    def __init__(self, url: URL) -> None:
        self._parameters = {name: value for name, value in url.query.items() if name not in ("uri", "mode")}
        self.path = _path_of(url)

    @property
    def shown(self) -> str:
        return str(self.path)

    def is_there(self) -> bool:
        return self.path.exists()

    def create(self) -> None:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        if everybody_can_create_files_in(self.path.parent) and not is_on_network(self.path):
            with suppress(OSError):  # no links here, or a file of this name
                _create_with_log(self.path)
        # Create an empty file, which SQLite takes for a new database. Never open an existing one: closing it would
        # release this process's locks.
        with suppress(FileExistsError):
            os.close(os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o666))

    def engine(self) -> Engine:
        return self._engine(_WRITING)

    def reading_engine(self) -> Engine:
        return self._engine(self._for_reading(), "PRAGMA query_only = ON")

    def prepare(self, engine: Engine) -> None:
        """Switch to the write-ahead log, with which readers and writers do not block each other.

        The log needs shared memory, so a file on a network file system goes without.
        """
        if is_on_network(self.path):
            return
        with engine.connect() as connection:
            driver = connection.connection.driver_connection
            assert driver is not None
            with _as_sqlalchemy_would("PRAGMA journal_mode"):
                _switch_to_log(driver, time.monotonic() + _PATIENCE_S)

    @contextmanager
    def limited(self, connection: Connection, limit_s: float) -> Iterator[None]:
        """Interrupt statements that compute too long: somebody may have left an endless trigger.

        A disk that hangs blocks the whole process anyway.
        """
        driver = connection.connection.driver_connection
        assert driver is not None
        deadline = time.monotonic() + limit_s
        driver.set_progress_handler(lambda: time.monotonic() > deadline, _STEPS_BETWEEN_LOOKS)
        try:
            yield
        finally:
            driver.set_progress_handler(None, 0)

    def is_foreign(self, connection: Connection) -> bool:
        return connection.exec_driver_sql("SELECT 1 FROM sqlite_master LIMIT 1").first() is not None

    @contextmanager
    def migrating(self) -> Iterator[Connection]:
        """Run one transaction that changes the schema. The write lock serialises migrations.

        Foreign keys are checked at the end, because migrations recreate tables.
        """
        engine = self._engine(_WRITING, "PRAGMA foreign_keys = OFF")
        try:
            with engine.execution_options(**{WRITE_PATIENCE: _MIGRATION_PATIENCE_S}).begin() as connection:
                yield connection
                _check_foreign_keys(connection)
        finally:
            engine.dispose()

    def keep_copy(self, connection: Connection, revision: str) -> Path | None:
        """Copy the file within `migrating`. Nobody else writes then, and the copy omits our uncommitted changes."""
        if not _holds_rows(connection):
            return None
        copy = self.path.with_name(f"{self.path.name}.before-{revision}")
        unfinished = copy.with_name(f".{copy.name}.{secrets.token_hex(4)}")
        try:
            unfinished.open("xb").close()  # not through a link that somebody made first
            self.copy_to(unfinished)
            unfinished.replace(copy)
        finally:
            unfinished.unlink(missing_ok=True)
        return copy

    def copy_for_reading(self, directory: Path) -> Storage:
        copy = directory / self.path.name
        self.copy_to(copy)
        return SqliteStorage(URL.create("sqlite", database=str(copy)))

    def copy_to(self, copy: Path) -> None:
        """Copy the database as it is now into a new file, with what stands in its write-ahead log."""
        _refuse_planted(self.path)
        named = _uri(self.path, {**self._parameters, **self._for_reading()})
        source = sqlite3.connect(named, uri=True, timeout=_PATIENCE_S)
        with closing(source), closing(sqlite3.connect(_uri(copy, {"mode": "rwc"}), uri=True)) as target:
            source.backup(target)

    def _for_reading(self) -> Mapping[str, str]:
        """Choose how to open the file for reading.

        A reader with write access opens it as a writer does, and so leaves no log behind. In a folder without write
        access a log cannot be read; without a log the file is opened as immutable.
        """
        if os.access(self.path.parent, os.W_OK):
            return _WRITING if os.access(self.path, os.W_OK) else _READING
        return _READING if os.path.exists(f"{self.path}-wal") else _READING_ALONE

    def _engine(self, mode: Mapping[str, str], *pragmas: str) -> Engine:
        query = {**self._parameters, **mode, "uri": "true"}
        engine = create_engine(URL.create("sqlite", database=_uri(self.path, {}), query=query))
        path = self.path
        _refuse_planted(path)  # before the file is opened, which waits for the other end of a pipe

        @event.listens_for(engine, "connect")
        def set_up(connection: sqlite3.Connection, record: Any) -> None:
            _refuse_planted(path)  # as late as possible: SQLite looks for a journal when it first reads
            _set_up(connection, pragmas)
            record.info[_FILE] = _identity(path)

        @event.listens_for(engine, "begin")
        def begin(connection: Connection) -> None:
            driver = connection.connection.driver_connection
            assert driver is not None
            patience_s = connection.get_execution_options().get(WRITE_PATIENCE)
            with _as_sqlalchemy_would("BEGIN"):
                if patience_s is None:
                    driver.execute("BEGIN")
                else:
                    _refuse_another_file(path, connection.connection.info[_FILE])
                    _begin_to_write(driver, time.monotonic() + patience_s)

        return engine


def take_in_log(file: Path) -> None:
    """Make a file that nobody else has open hold everything, without a write-ahead log beside it."""
    with closing(sqlite3.connect(_uri(file, _WRITING), uri=True)) as database:
        database.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        database.execute("PRAGMA journal_mode = DELETE")


def _path_of(url: URL) -> Path:
    """Path of the database file. With `uri=true` the URL holds an SQLite `file:` URI."""
    named = str(url.database)
    if url.query.get("uri") == "true" and named.startswith("file:"):
        text = named.removeprefix("file:")
        named = os.fsdecode(unquote_to_bytes(text.removeprefix("//") if text.startswith("///") else text))
    return Path(os.path.abspath(named))


def _uri(path: Path, parameters: Mapping[str, Any]) -> str:
    """SQLite URI of the file. Paths with ? # % and undecodable bytes are escaped."""
    query = "&".join(f"{name}={quote(str(value))}" for name, value in parameters.items())
    return f"file:{quote(os.fsencode(path))}" + (f"?{query}" if query else "")


def _set_up(connection: sqlite3.Connection, pragmas: Iterable[str]) -> None:
    connection.isolation_level = None  # SQLAlchemy begins transactions, not sqlite3
    connection.execute("PRAGMA foreign_keys = ON")
    # NORMAL is a little faster, but a power loss could lose runs that were already reported.
    connection.execute("PRAGMA synchronous = FULL")
    connection.execute(f"PRAGMA busy_timeout = {_PATIENCE_S * 1000:.0f}")
    for pragma in pragmas:
        connection.execute(pragma)


@contextmanager
def _as_sqlalchemy_would(statement: str) -> Iterator[None]:
    try:
        yield
    except sqlite3.Error as error:
        raise OperationalError(statement, None, error) from error


def _begin_to_write(connection: sqlite3.Connection, deadline: float) -> None:
    """Take the write lock at the start. A transaction that begins by reading may be unable to write later.

    SQLite's own waiting polls ever more rarely and can starve among many writers, so it is kept short.
    """
    connection.execute(f"PRAGMA busy_timeout = {_TURN_MS}")
    try:
        while not _has_begun(connection, deadline):
            time.sleep(_CHANCE.uniform(0.0005, 0.005))
    finally:
        connection.execute(f"PRAGMA busy_timeout = {_PATIENCE_S * 1000:.0f}")


def _has_begun(connection: sqlite3.Connection, deadline: float) -> bool:
    try:
        connection.execute("BEGIN IMMEDIATE")
    except sqlite3.OperationalError as error:
        if not _is_busy(error) or time.monotonic() >= deadline:
            raise
        return False
    return True


def _is_busy(error: sqlite3.OperationalError) -> bool:
    return getattr(error, "sqlite_errorcode", 0) & 0xFF in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)


def _switch_to_log(connection: sqlite3.Connection, deadline: float) -> None:
    """Switch the journal to a write-ahead log, and wait for others, which SQLite does not do here.

    If the file system does not support it, the file stays as it is.
    """
    while connection.execute("PRAGMA journal_mode").fetchone() != ("wal",):
        try:
            (mode,) = connection.execute("PRAGMA journal_mode = WAL").fetchone()
        except sqlite3.OperationalError as error:
            if _is_busy(error) and time.monotonic() < deadline:
                time.sleep(_CHANCE.uniform(0.005, 0.02))
                continue
            mode = str(error)
        if mode != "wal":
            logger.debug("no write-ahead log here: %s", mode)
            connection.execute("PRAGMA journal_mode = DELETE")
            return


def _check_foreign_keys(connection: Connection) -> None:
    broken = connection.exec_driver_sql("PRAGMA foreign_key_check").first()
    if broken is not None:
        raise IntegrityError("COMMIT", None, ValueError(f"a row of {broken[0]} belongs to no row of {broken[2]}"))


def _holds_rows(connection: Connection) -> bool:
    tables = connection.exec_driver_sql(
        "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\'"
        " AND name <> 'alembic_version'"
    )
    quoted = ('"' + name.replace('"', '""') + '"' for (name,) in tables.fetchall())
    return any(connection.exec_driver_sql(f"SELECT 1 FROM {table} LIMIT 1").first() for table in quoted)


def _identity(path: Path) -> tuple[int, int] | None:
    with suppress(OSError):
        found = path.stat()
        return found.st_dev, found.st_ino
    return None


def _refuse_planted(path: Path) -> None:
    """Raise for files that another user may have planted. SQLite trusts what stands beside a database.

    A journal changes the database and can name any other file, which SQLite then removes. We write no such journal.
    """
    real = Path(os.path.realpath(path))
    _take_name_of_journal(real)
    beside = [real.with_name(real.name + end) for end in _BESIDE]
    for file in (path, real, *beside):
        with suppress(FileNotFoundError):
            _refuse_of_others(file)
            if stat.S_ISFIFO(file.stat().st_mode):
                raise NotUsable(file, f"{file} is a pipe, not a file")
    with suppress(FileNotFoundError):
        if safe_files.read_end(beside[0], len(_NAMES_ANOTHER_FILE)) == _NAMES_ANOTHER_FILE:
            raise NotUsable(beside[0], f"{beside[0]} names another file, which SQLite would remove: it is not ours")


def _take_name_of_journal(database: Path) -> None:
    """Put an empty journal beside our database where everybody can create files, before another user plants one.

    SQLite ignores an empty journal, and leaves it there as long as the write-ahead log is used. To look whether there
    is a journal is not enough: it could come between our look and SQLite's.
    """
    journal = Path(f"{database}{_BESIDE[0]}")
    if not _may_be_planted(journal) or not os.path.exists(database) or database.stat().st_uid != os.geteuid():
        return
    for _ in range(_TRIES):
        with suppress(OSError):  # there is one, or the disk is full
            made = os.open(journal, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
            os.fchmod(made, database.stat().st_mode & 0o666)
            os.close(made)
        with suppress(FileNotFoundError):  # another user's may have gone, to come back later
            _refuse_of_others(journal)
            return
    raise NotUsable(journal, f"{journal} cannot be created, or another user creates and removes it")


def _may_be_planted(file: Path) -> bool:
    return everybody_can_create_files_in(file.parent) and os.access(file.parent, os.W_OK)


def _refuse_of_others(file: Path) -> None:
    if belongs_to_another(file):
        raise NotUsable(file, f"{file} belongs to another user (uid {file.lstat().st_uid})")


def _create_with_log(path: Path) -> None:
    """Create a database that has its write-ahead log from the beginning: switching to it would remove the journal, and
    leave its name to others for a moment. Raises OSError if there is a file of this name."""
    with tempfile.TemporaryDirectory(prefix=".", dir=path.parent) as folder:
        new = Path(folder, "new.db")
        with closing(sqlite3.connect(new)) as connection:
            connection.execute("PRAGMA journal_mode = WAL")
        os.link(new, path)


def _refuse_another_file(path: Path, opened: tuple[int, int] | None) -> None:
    """Raise if the path now names another file. Writes into a removed file would be lost silently."""
    if opened != _identity(path):
        raise FileNotFoundError(errno.ENOENT, "the database was removed or replaced while it was open", str(path))


def is_on_network(path: Path, mounts: Path = _MOUNTS) -> bool:
    """True if other machines may have the file open too. False where there is no list of mounts (macOS)."""
    return file_system_of(path, mounts) in _NETWORK


def file_system_of(path: Path, mounts: Path = _MOUNTS) -> str:
    """Type of the file system at the path, from the last mount at its longest mounted parent; "" if unknown."""
    try:
        lines = mounts.read_text(encoding="utf-8", errors="surrogateescape").splitlines()
    except OSError:
        return ""
    real = Path(os.path.realpath(path))
    found, depth = "", 0
    for _, folder, kind, *_ in (line.split(" ") for line in lines if line.count(" ") >= 3):
        parts = Path(_unescaped(folder)).parts
        if len(parts) >= depth and real.parts[: len(parts)] == parts:
            found, depth = kind, len(parts)
    return found


def _unescaped(folder: str) -> str:
    for escape, letter in _ESCAPES.items():
        folder = folder.replace(escape, letter)
    return folder
