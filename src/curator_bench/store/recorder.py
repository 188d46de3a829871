"""Write runs into the database as they start and end.

A database failure never stops a run. The run is kept in SESSION/unrecorded.jsonl, and the end of the session reports
it.
"""

from __future__ import annotations

import functools
import logging
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TypeVar

from sqlalchemy import Connection
from sqlalchemy.exc import DBAPIError

from curator_bench.store import rows, unrecorded
from curator_bench.store.database import WRITE_PATIENCE_S, Database, reason_of
from curator_bench.store.records import (
    NO_BACKGROUND,
    Background,
    InvocationRecord,
    RunEnd,
    RunStart,
    SessionRecord,
    StoredRun,
)
from curator_bench.store.rows import Place
from curator_bench.store.session_uid import session_uid

logger = logging.getLogger(__name__)

_Answer = TypeVar("_Answer")

_SHORT_PATIENCE_S = 1.0
"""Wait after a failed write, so that runs do not wait for a failing database again and again."""
_SILENCE_S = 5.0
"""Longest time a server may take for the few statements of a run."""
_AT_ONCE_S = 1.0


@dataclass
class _Losses:
    """Runs that did not reach the database, reported at the end of the session."""

    kept: set[str] = field(default_factory=set)
    lost: dict[str, str] = field(default_factory=dict)
    reasons: dict[str, None] = field(default_factory=dict)
    end_missing: bool = False
    changed: list[str] = field(default_factory=list)
    """Names of runs that were recorded and then changed or deleted by something else."""
    unread: str = ""
    """Why the database could not be read back at the end."""

    def problem_lines(self, shown: str, file: Path) -> Iterator[str]:
        why = f"not recorded in {shown} ({'; '.join(self.reasons)})"
        if self.kept:
            yield f"{_runs(len(self.kept))} {why}, kept in {file}: `curator-bench import {file}` imports them"
        if self.lost:
            yield f"{_runs(len(self.lost))} {why} and lost, because no file took them: {_few(self.lost.values())}"
        if self.end_missing:
            yield f"the end of this invocation is {why}"
        files = f"their results are in {file.parent}"
        if self.changed:
            names = _few(self.changed)
            yield f"{_runs(len(self.changed))} changed or gone from {shown} since recorded: {names}; {files}"
        if self.unread:
            yield f"{shown}, where runs were recorded, cannot be read any more ({self.unread}); {files}"


class Recorder:
    """Record the runs of this process. Thread-safe; database errors are never raised.

    When `finish_run` returns, the run is in the database or in the file.
    """

    def __init__(self, database: Database, session: SessionRecord, invocation: InvocationRecord) -> None:
        self.session_dir = Path(session.results_directory, session.name)
        self._database = database
        self._asked = session
        self._invocation = invocation
        self._place: Place | None = None
        self._facts: set[str] = set()
        """Uids of facts and definitions that this process has written."""
        self._under_way: dict[str, tuple[RunStart, Background, int | None]] = {}
        self.patience_s = WRITE_PATIENCE_S
        """Longest wait of the next write for other writers. Short after a failed write."""
        self._recorded: dict[str, tuple[str, str]] = {}
        """Name and verdict of the runs in the database, by uid."""
        self._losses = _Losses()
        self._reasons: dict[str, None] = {}  # since the last successful write
        self._is_gone = False
        """True once the file of the database was removed or replaced, with all that was recorded in it."""

    @functools.cached_property
    def session(self) -> SessionRecord:
        """The session with its uid, which the first write creates in the session's folder."""
        return self._asked if self._asked.uid else replace(self._asked, uid=session_uid(self.session_dir))

    @property
    def invocation(self) -> InvocationRecord:
        return self._invocation

    def start_invocation(self) -> None:
        """Write the session and the invocation now, instead of with the first run."""
        self._write(lambda connection, place: True)

    def start_run(self, start: RunStart, background: Background = NO_BACKGROUND) -> str:
        """Write the row of a run that starts now, and what it is measured with."""
        self._under_way[start.uid] = (start, background, None)
        run = self._write(lambda connection, place: self._add_start(connection, place, start, background))
        self._under_way[start.uid] = (start, background, run)
        return start.uid

    def _add_start(self, connection: Connection, place: Place, start: RunStart, background: Background) -> int:
        self._facts |= rows.add_background(connection, background, self._facts)
        return rows.add_start(connection, place, start)

    def finish_run(self, uid: str, end: RunEnd) -> None:
        """Complete the row with all the run measured. A second call replaces the first."""
        start, background, run = self._under_way[uid]

        def complete(connection: Connection, place: Place) -> int:
            if run is None:  # its start was not recorded
                rows.add_background(connection, background)
            return rows.complete(connection, place, start, end, run)

        if self._write(complete) is None:
            self._keep(StoredRun(self.session, self._invocation, start, end, background))
        else:
            self._recorded[uid] = (start.name, str(end.verdict))

    def note_teardown(self, uid: str, outcome: str) -> None:
        """Write the outcome of the fixtures' teardown for a recorded run."""
        self._write(lambda connection, place: rows.note_teardown(connection, uid, outcome))

    def note_links(self, links: Mapping[str, Mapping[str, str]]) -> None:
        """Write the links to the session (under the empty uid) and to its runs, by name of the sink."""
        self._write(lambda connection, place: rows.note_links(connection, place, links))

    def heartbeat(self, uids: Iterable[str]) -> None:
        """Refresh the heartbeat of running runs. A thread of the caller calls this every 30 s."""
        if alive := list(uids):
            self._write(lambda connection, place: rows.beat(connection, alive, datetime.now(UTC)))

    def finish_invocation(self, exit_status: int) -> None:
        """Write the end of the invocation. Only the process that knows the exit status calls this."""
        end = datetime.now(UTC)
        if self._write(lambda connection, place: rows.end_invocation(connection, place, end, exit_status)) is None:
            self._losses.reasons |= self._reasons
            self._losses.end_missing = True

    def read_back(self) -> None:
        """Compare the database with what was recorded. A script may have damaged it, or left a trigger in it."""
        if self._reasons or not self._recorded:  # no news of a database that fails
            self._losses.changed = [name for name, _verdict in self._recorded.values() if self._is_gone]
            return
        self._database.reconnect()  # what this process holds in memory says nothing about the file
        found = self._write(lambda connection, place: rows.verdicts_of(connection, self._recorded))
        if found is None:
            self._losses.unread = "; ".join(self._reasons)
            return
        self._losses.changed = [name for uid, (name, verdict) in self._recorded.items() if found.get(uid) != verdict]

    def problems(self) -> tuple[str, ...]:
        """Messages about runs that were not recorded; empty if all were."""
        return tuple(self._losses.problem_lines(self._database.shown, self.session_dir / unrecorded.FILE_NAME))

    def _write(self, work: Callable[[Connection, Place], _Answer]) -> _Answer | None:
        """Run one transaction; None if it failed. A lost connection is tried once more."""
        started = time.monotonic()
        for _ in range(2):
            try:
                return self._transact(work)
            except Exception as error:  # the run goes on after any error
                self._note(error)
                if not _was_lost(error) or time.monotonic() - started > _AT_ONCE_S:
                    break
        return None

    def _transact(self, work: Callable[[Connection, Place], _Answer]) -> _Answer:
        with self._database.writing(self.patience_s, _SILENCE_S) as connection:
            place = self._place or self._join(connection)
            answer = work(connection, place)
        self._place, self.patience_s, self._reasons = place, WRITE_PATIENCE_S, {}
        return answer

    def _join(self, connection: Connection) -> Place:
        session = rows.join_session(connection, self.session)
        return Place(session, rows.join_invocation(connection, session, self._invocation))

    def _note(self, error: Exception) -> None:
        logger.debug("%s: %s", self._database.shown, reason_of(error), exc_info=error)
        self._reasons = {**self._reasons, reason_of(error): None}
        self._is_gone = self._is_gone or isinstance(error, FileNotFoundError)
        self._place, self._facts, self.patience_s = None, set(), _SHORT_PATIENCE_S
        self._database.reconnect()

    def _keep(self, record: StoredRun) -> None:
        why = "; ".join(self._reasons)
        self._losses.reasons |= self._reasons
        try:
            path = unrecorded.keep(self.session_dir, record)
        except (OSError, ValueError, TypeError, RecursionError) as error:
            logger.warning("%s is not recorded anywhere: %s; %s", record.start.name, why, error)
            self._losses.reasons[reason_of(error)] = None
            self._losses.lost[record.start.uid] = record.start.name
            return
        logger.warning("%s is not recorded but kept in %s: %s", record.start.name, path, why)
        self._losses.kept.add(record.start.uid)


def _was_lost(error: Exception) -> bool:
    """True if the connection failed rather than the statement. A restarted server accepts a new connection."""
    return isinstance(error, DBAPIError) and error.connection_invalidated


def _few(names: Iterable[str]) -> str:
    first, *others = names
    return ", ".join([first, *others[:9], *([f"and {len(others) - 9} more"] if len(others) > 9 else [])])


def _runs(count: int) -> str:
    return f"{count} run{'s' if count != 1 else ''}"
