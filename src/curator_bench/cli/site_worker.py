"""The process that keeps the dashboard of `curator-bench serve` up to date.

It works at low priority, and gives its memory back with its end. What to build comes on standard input, as passwords in
the arguments of a process are for all to read. It ends when its standard input does, so also with the server.
"""

from __future__ import annotations

import gc
import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from queue import SimpleQueue
from typing import Any, TextIO

from curator_bench.cli import OBJECTS_BETWEEN_SEARCHES
from curator_bench.errors import BenchError
from curator_bench.files.codec import from_document, json_line, parsed, to_document
from curator_bench.masking import Mask
from curator_bench.report.site.build import Settings
from curator_bench.report.site.work_queue import Asked

_NICE = 10
_TOLD_EVERY_S = 0.3
_LAST_SESSIONS = 50
"""The number of newest sessions whose results directories are searched for running sessions."""


@dataclass(frozen=True, slots=True)
class Task:
    """The request of the server, which does not change."""

    database: str
    site: str
    title: str
    last: int
    commit_url: str | None
    better: str | None
    min_effect: float
    repo: str | None

    @property
    def settings(self) -> Settings:
        return Settings(self.title, self.commit_url, is_served=True)


@dataclass(frozen=True, slots=True)
class News:
    """A message of the worker: while it builds, and at the end of each look."""

    doing: str = ""
    problem: str = ""
    is_done: bool = False
    """True at the end of a look at the database."""
    results: tuple[str, ...] = ()
    """The results directories of the newest sessions."""
    used_s: float = 0.0
    """Processor time of the look, at its end."""


@dataclass(frozen=True, slots=True)
class Request:
    """A request of the server: to look at the database, or to build a file that somebody waits for next."""

    file: str = ""
    """Empty to look at the database."""


def main() -> None:
    """Look at the database whenever that is asked for."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    gc.set_threshold(OBJECTS_BETWEEN_SEARCHES)
    os.nice(_NICE)
    out, sys.stdout = sys.stdout, sys.stderr
    inbox = _Inbox()
    task = from_document(Task, parsed(sys.stdin.readline()))
    threading.Thread(target=inbox.listen, args=(sys.stdin,), daemon=True).start()
    mark: object = None
    while True:
        inbox.looks.acquire()
        mark = _look(task, mark, lambda news: _say(out, news), inbox.files)


class _Inbox:
    """The requests of the server."""

    def __init__(self) -> None:
        self.looks = threading.Semaphore(0)
        self._files: SimpleQueue[str] = SimpleQueue()

    def listen(self, lines: TextIO) -> None:
        """Read requests until the server ends; then end, too."""
        for line in lines:
            request = from_document(Request, parsed(line))
            if request.file:
                self._files.put(request.file)
            else:
                self.looks.release()
        os._exit(0)

    def files(self) -> list[str]:
        """Return the files that were asked for since the last call."""
        return [self._files.get() for _ in range(self._files.qsize())]


def _say(out: TextIO, news: News) -> None:
    try:
        out.buffer.write(json_line(to_document(news)))
        out.flush()
    except OSError:  # the server is gone
        os._exit(0)


def _look(task: Task, mark: object, say: Callable[[News], None], asked: Asked) -> object:
    """Bring the dashboard up to date if the database changed. Return its mark, or None after a failure."""
    began = time.process_time()

    def end(**news: Any) -> None:
        say(News(is_done=True, used_s=time.process_time() - began, **news))

    try:
        found, results = _refreshed(task, mark, say, asked)
    except BenchError as error:
        end(problem=Mask().hide(str(error)))
        return None
    except Exception as error:  # the next look may succeed, and the pages that are there stay
        end(problem=Mask().hide(f"The dashboard could not be built: {error!r}"))
        return None
    end(results=results)
    return found


def _refreshed(task: Task, mark: object, say: Callable[[News], None], asked: Asked) -> tuple[object, tuple[str, ...]]:
    from curator_bench.causes.judged_history import Query
    from curator_bench.cli.dashboard import RecordedHistory
    from curator_bench.cli.databases import reading
    from curator_bench.report.site.build import write_site
    from curator_bench.store.past_sessions import sessions
    from curator_bench.store.serving import mark_of_changes, results_directories

    with reading(task.database) as opened, opened.reading() as connection:
        found = mark_of_changes(connection)
        results = tuple(results_directories(connection, _LAST_SESSIONS))
        if found != mark:
            say(News(doing="Reading and judging the history …", results=results))
            query = Query(better=task.better, min_effect=task.min_effect, repo=Path(task.repo) if task.repo else None)
            history = RecordedHistory(connection, query, sessions(connection, task.last))
            write_site(Path(task.site), history, task.settings, _telling(say), asked)
    return found, results


def _telling(say: Callable[[News], None]) -> Callable[[int, int], None]:
    last = [0.0]

    def report_progress(done: int, total: int) -> None:
        if time.monotonic() - last[0] > _TOLD_EVERY_S:
            last[0] = time.monotonic()
            say(News(doing=f"Writing pages: {done:,} of {total:,}"))

    return report_progress


if __name__ == "__main__":
    main()
