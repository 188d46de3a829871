"""Files that many jobs share in a store: on S3 by conditional writes, elsewhere in parts that nobody writes twice.

A record on disk or on a PostgreSQL server is no such place: jobs write into that database at the same time.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from curator_bench.errors import BenchError
from curator_bench.masking import Mask, secrets_in

NOTHING = ""
"""Version of a file that is not there."""
_TAKEN = ("PreconditionFailed", "ConditionalRequestConflict", "412", "409")
_PART = ".db"
_TRIES = 10
_DATABASES = ("sqlite", "postgresql", "postgres")


class OtherWasFaster(Exception):
    """Another job stored the file after it was fetched here."""


@dataclass(frozen=True, slots=True)
class Fetched:
    """Local copies of what is stored: one file, or all parts."""

    files: Sequence[Path] = ()
    version: str = NOTHING


class Place(Protocol):
    """A place in a store that holds one database."""

    def fetch(self, folder: Path) -> Fetched:
        """Copy what is there into a folder. Raises BenchError."""

    def store(self, file: Path, version: str) -> None:
        """Put the file there. Raises OtherWasFaster if the version is not the one that is there, and BenchError."""


def hidden(text: str) -> str:
    """Return a text without passwords in URLs, and without values of secret variables."""
    return Mask(secrets_in(os.environ)).hide(text)


def database_at(url: str) -> str | None:
    """Return the path or URL of a database that jobs write into at the same time, or None if it is in a store."""
    scheme, is_url, path = url.partition("://")
    if not is_url or scheme.partition("+")[0].lower() in _DATABASES:
        return url
    return path if scheme.lower() == "file" else None


def is_server(database: str) -> bool:
    return database.startswith("postgres")


def place_of(url: str) -> Place:
    """Return the place in a store. Raises BenchError if it, or what is needed to use it, is not known here."""
    from curator_bench.sinks.file_systems import opened

    refuse_unknown(url)
    with failing_in_one_line(url):
        files, path = opened(url, {})
    return (OnS3 if url.startswith(("s3://", "s3a://")) else InParts)(url, files, path)


@dataclass(frozen=True, slots=True)
class OnS3:
    """A file that is written only if nobody else has written it since: `If-Match` and `If-None-Match` of a PUT."""

    url: str
    files: Any
    path: str

    def fetch(self, folder: Path) -> Fetched:
        bucket, key, _ = self.files.split_path(self.path)
        try:
            with failing_in_one_line(self.url):
                answer = self.files.call_s3("get_object", Bucket=bucket, Key=key)
                content = _read(self.files, answer["Body"])
        except FileNotFoundError:
            return Fetched()
        copy = folder / "stored.db"
        copy.write_bytes(content)
        return Fetched([copy], str(answer["ETag"]))  # of what was read, not of what is there a moment later

    def store(self, file: Path, version: str) -> None:
        bucket, key, _ = self.files.split_path(self.path)
        condition = {"IfNoneMatch": "*"} if version == NOTHING else {"IfMatch": version}
        with failing_in_one_line(self.url):
            try:
                self.files.call_s3("put_object", Bucket=bucket, Key=key, Body=file.read_bytes(), **condition)
            except Exception as error:
                if any(word in f"{error!r} {error.__cause__!r}" for word in _TAKEN):
                    raise OtherWasFaster from error
                raise


def _read(files: Any, body: Any) -> bytes:
    from fsspec.asyn import sync

    content: bytes = sync(files.loop, body.read)
    return content


@dataclass(frozen=True, slots=True)
class InParts:
    """Parts beside the URL (`URL.parts/…`): each job writes one of its own. Whoever fetches gets all of them.

    A part holds what the parts held that it was made from. So these are removed, after it is there.
    """

    url: str
    files: Any
    path: str

    def fetch(self, folder: Path) -> Fetched:
        """Copy all parts. The version is their names."""
        with failing_in_one_line(self.url):
            for _ in range(_TRIES):
                with suppress(FileNotFoundError):  # another job has just removed one
                    return self._fetched(folder)
        raise BenchError(f"{hidden(self.url)} changes each time it is fetched")

    def _fetched(self, folder: Path) -> Fetched:
        copies, names = list[Path](), self._names()
        for number, name in enumerate(names):
            copies.append(folder / f"part-{number}.db")
            copies[-1].write_bytes(self.files.cat_file(name))
        return Fetched(copies, "\n".join(names))

    @property
    def _parts(self) -> str:
        return f"{self.path}.parts"

    def _names(self) -> list[str]:
        self.files.invalidate_cache()
        whole = [self.path] if self.files.exists(self.path) else []
        parts = self.files.find(self._parts) if self.files.exists(self._parts) else []
        return whole + sorted(name for name in parts if name.endswith(_PART))

    def store(self, file: Path, version: str) -> None:
        with failing_in_one_line(self.url):
            self.files.makedirs(self._parts, exist_ok=True)
            part = f"{self._parts}/{uuid.uuid4().hex}{_PART}"
            self.files.pipe_file(f"{part}.unfinished", file.read_bytes())
            self.files.mv(f"{part}.unfinished", part)
            for name in version.splitlines():
                if name != self.path:
                    with suppress(Exception):  # another job was faster, or may not remove any: a part more does no harm
                        self.files.rm_file(name)


def refuse_unknown(url: str) -> None:
    """Raise BenchError if a URL, or what is needed to use it, is not known here."""
    from curator_bench.sinks.file_systems import lacking

    if lacks := lacking(url):
        raise BenchError(f"{hidden(url)} needs {lacks}")


def put_folder(folder: Path, url: str) -> None:
    """Copy all files of a folder to a URL. Raises BenchError."""
    from curator_bench.sinks.file_systems import opened

    with failing_in_one_line(url, "written"):
        files, path = opened(url, {})
        files.put(f"{folder}/", path.rstrip("/") + "/", recursive=True)


@contextmanager
def failing_in_one_line(url: str, what: str = "used") -> Iterator[None]:
    """Raise BenchError for every error of a store but a file that is not there."""
    try:
        yield
    except (BenchError, FileNotFoundError, OtherWasFaster):
        raise
    except Exception as error:  # each kind of store has errors of its own
        reason = hidden(f"{type(error).__name__}: {error}")
        raise BenchError(f"{hidden(url)} cannot be {what}: {reason}") from error


def replace_file(new: Path, file: Path) -> None:
    """Put a copy of `new` at `file` in one step, without what stood beside an older database of this name."""
    from shutil import copyfileobj

    from curator_bench.files import safe_files
    from curator_bench.files.planted import refuse_planted_on_the_way

    with _writing(file):
        refuse_planted_on_the_way(file)
        file.parent.mkdir(parents=True, exist_ok=True)
        beside = file.with_name(f".{file.name}.{uuid.uuid4().hex[:8]}")
        try:
            with new.open("rb") as source, safe_files.create_file(beside) as target:
                copyfileobj(source, target)
            remove_database(file)
            safe_files.rename(beside, file.name)
        finally:
            with suppress(OSError):
                beside.unlink()


def remove_database(file: Path) -> None:
    """Remove a database file and the logs beside it, which belong to no other."""
    with _writing(file):
        for end in ("", "-wal", "-shm", "-journal"):
            file.with_name(file.name + end).unlink(missing_ok=True)


@contextmanager
def _writing(file: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise BenchError(f"{error.filename or file} cannot be written: {error.strerror or error}") from error
