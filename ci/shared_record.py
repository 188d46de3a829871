"""A database file that many jobs share by a URL: fetched, and put back only if nobody else has put one there meanwhile.

    shared_record.py fetch URL FILE     writes FILE, and FILE.version: what was there, or that nothing was
    shared_record.py store URL FILE     puts FILE there; exit code 75 where another was faster: fetch and merge again

A path is guarded by a lock beside it, S3 by conditional writes. Other file systems of fsspec have neither in common:
there each job leaves a part of its own beside the record (URL.parts/…), which is never written twice, and whoever
fetches gets all of them (FILE, FILE.part-1, …) to merge.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import sqlite3
import sys
import uuid
from contextlib import closing
from pathlib import Path
from typing import Any

AGAIN = 75
NOTHING = "nothing"
_TAKEN = ("PreconditionFailed", "ConditionalRequestConflict", "412", "409")


class OtherWasFaster(Exception):
    pass


class OnDisk:
    def __init__(self, url: str) -> None:
        self.path = Path(url.removeprefix("file://")).expanduser()

    def fetch(self, file: Path) -> str:
        if not self.path.exists():
            return NOTHING
        content = self.path.read_bytes()
        file.write_bytes(content)
        return hashlib.sha256(content).hexdigest()

    def store(self, file: Path, version: str) -> None:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with self.path.with_name(f"{self.path.name}.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            there = hashlib.sha256(self.path.read_bytes()).hexdigest() if self.path.exists() else NOTHING
            if there != version:
                raise OtherWasFaster
            unfinished = self.path.with_name(f"{self.path.name}.unfinished")
            unfinished.write_bytes(file.read_bytes())
            unfinished.replace(self.path)


class OnS3:
    """Works with every server that knows If-Match and If-None-Match in a PUT."""

    def __init__(self, url: str) -> None:
        import fsspec

        self.files: Any
        self.files, self.path = fsspec.url_to_fs(url)
        self.bucket, self.key, _ = self.files.split_path(self.path)

    def fetch(self, file: Path) -> str:
        try:
            answer = self.files.call_s3("get_object", Bucket=self.bucket, Key=self.key)
        except FileNotFoundError:
            return NOTHING
        # The version is that of what was read, not of what is there a moment later.
        file.write_bytes(_read(self.files, answer["Body"]))
        return str(answer["ETag"])

    def store(self, file: Path, version: str) -> None:
        condition = {"IfNoneMatch": "*"} if version == NOTHING else {"IfMatch": version}
        try:
            self.files.call_s3("put_object", Bucket=self.bucket, Key=self.key, Body=file.read_bytes(), **condition)
        except Exception as error:
            if any(word in f"{error!r} {error.__cause__!r}" for word in _TAKEN):
                raise OtherWasFaster from error
            raise


def _read(files: Any, body: Any) -> bytes:
    from fsspec.asyn import sync

    content: bytes = sync(files.loop, body.read)
    return content


class InParts:
    def __init__(self, url: str) -> None:
        import fsspec

        self.files: Any
        self.files, self.path = fsspec.url_to_fs(url)
        self.parts = f"{self.path}.parts"

    def fetch(self, file: Path) -> str:
        parts = self.files.find(self.parts) if self.files.exists(self.parts) else []
        there = [*([self.path] if self.files.exists(self.path) else []), *sorted(parts)]
        for number, part in enumerate(there):
            name = file if number == 0 else file.with_name(f"{file.name}.part-{number}")
            name.write_bytes(self.files.cat_file(part))
        return NOTHING

    def store(self, file: Path, version: str) -> None:
        self.files.makedirs(self.parts, exist_ok=True)
        self.files.pipe_file(f"{self.parts}/{uuid.uuid4().hex}.db", file.read_bytes())


def place_of(url: str) -> OnDisk | OnS3 | InParts:
    if "://" not in url or url.startswith("file://"):
        return OnDisk(url)
    return OnS3(url) if url.startswith(("s3://", "s3a://")) else InParts(url)


def keeps_parts(url: str) -> bool:
    return isinstance(place_of(url), InParts)


def whole(file: Path) -> None:
    """One file holds everything: what stands in a write-ahead log beside it is taken in."""
    with closing(sqlite3.connect(file)) as database:
        database.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        database.execute("PRAGMA journal_mode=DELETE")


def main(words: list[str]) -> int:
    if len(words) != 3 or words[0] not in ("fetch", "store", "keeps-parts"):
        print(__doc__, file=sys.stderr)
        return 2
    what, url, file = words[0], words[1], Path(words[2])
    version = file.with_name(f"{file.name}.version")
    if what == "keeps-parts":
        return 0 if keeps_parts(url) else 1
    try:
        if what == "fetch":
            version.write_text(place_of(url).fetch(file))
        else:
            whole(file)
            place_of(url).store(file, version.read_text())
    except OtherWasFaster:
        return AGAIN
    except (OSError, ImportError, ValueError) as error:  # a ValueError of fsspec's tells of a URL it does not know
        print(f"{os.path.basename(__file__)}: {what} {url}: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
