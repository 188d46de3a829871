"""The record: one database for all jobs. Each starts from it and adds its runs, and none loses what another adds."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from curator_bench.errors import BenchError
from curator_bench.hunting.children import scratch_folder
from curator_bench.sharing.places import (
    OtherWasFaster,
    Place,
    database_at,
    hidden,
    is_server,
    place_of,
    remove_database,
    replace_file,
)

Merge: TypeAlias = Callable[[Sequence[str], str], None]
"""Add the runs of databases, or of files of runs, to a database, and say so. Raises BenchError."""
_TRIES = 20
_LONGEST_PAUSE_S = 3.0


@dataclass(frozen=True, slots=True)
class Record:
    """The record at a path, at a URL of a store, or on a PostgreSQL server."""

    url: str
    merge: Merge
    """For what the user adds; tells how many runs were new."""
    merge_quietly: Merge
    """For copies that the user does not know."""
    tell: Callable[[str], None]

    @property
    def shown(self) -> str:
        return hidden(self.url)

    @property
    def is_server(self) -> bool:
        return is_server(self.url)

    def get(self, file: Path) -> bool:
        """Write all of the record into a file, which replaces an older one; False if there is no record yet."""
        with scratch_folder() as folder:
            copy = folder / "record.db"
            if not self._copy_into(copy, folder):
                remove_database(file)
                return False
            replace_file(copy, file)
        return True

    @contextmanager
    def opened(self) -> Iterator[str | None]:
        """Yield a database to read the record from, or None if there is no record yet."""
        database = database_at(self.url)
        if database is not None:
            yield database if self._is_there(database) else None
            return
        with scratch_folder() as folder:
            copy = folder / "record.db"
            yield str(copy) if self._copy_into(copy, folder) else None

    def add(self, databases: Sequence[str]) -> None:
        """Add the runs of these databases or files of runs. Adding them again changes nothing."""
        database = database_at(self.url)
        if database is not None:
            self._refuse_planted(database)
            self.merge(databases, database)
            return
        place = place_of(self.url)
        for _ in range(_TRIES):
            try:
                self._add_in(place, databases)
            except OtherWasFaster:
                self.tell("another job was faster; once more with what it added")
                time.sleep(random.uniform(0, _LONGEST_PAUSE_S))
            else:
                return
        raise BenchError(f"{self.shown}: {_TRIES} tries, and each time another job was faster; nothing was added")

    def _add_in(self, place: Place, databases: Sequence[str]) -> None:
        from curator_bench.store.opening import make_whole

        with scratch_folder() as folder, self._named_as_the_record(folder):
            record = folder / "record.db"
            version = self._fetch(place, record, folder)
            self.merge(databases, str(record))
            make_whole(record)
            place.store(record, version)

    def _fetch(self, place: Place, copy: Path, folder: Path) -> str:
        fetched = place.fetch(folder)
        if len(fetched.files) == 1:
            fetched.files[0].rename(copy)
        elif fetched.files:
            self.merge_quietly([*map(str, fetched.files)], str(copy))
        return fetched.version

    def _copy_into(self, copy: Path, folder: Path) -> bool:
        from curator_bench.store.opening import copy_file, make_whole

        database = database_at(self.url)
        with self._named_as_the_record(folder):
            if database is None:
                self._fetch(place_of(self.url), copy, folder)
            elif self._is_there(database):
                if self.is_server:
                    self.merge_quietly([database], str(copy))
                else:
                    copy_file(database, copy)
            if copy.exists():
                make_whole(copy)
        return copy.exists()

    def _is_there(self, database: str) -> bool:
        from curator_bench.store.opening import to_read_if_there

        self._refuse_planted(database)
        with to_read_if_there(database) as there:
            return there is not None

    @contextmanager
    def _named_as_the_record(self, folder: Path) -> Iterator[None]:
        """Name the record in messages about its copies in the folder, which nobody knows."""
        try:
            yield
        except BenchError as error:
            text = str(error)
            for file in sorted(folder.glob("*.db"), reverse=True):
                text = text.replace(str(file), self.shown)
            raise BenchError(text) from error

    def _refuse_planted(self, database: str) -> None:
        from curator_bench.files.planted import refuse_planted_on_the_way

        if "://" in database:
            return
        try:
            refuse_planted_on_the_way(Path(database).expanduser())
        except OSError as error:
            raise BenchError(f"{error.filename} cannot be used: {error.strerror}") from error
