"""Keeps the dashboard of `curator-bench serve` up to date, while somebody looks at it, by a process of its own."""

from __future__ import annotations

import math
import os
import subprocess
import sys
import threading
import time
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from curator_bench.cli.site_worker import News, Request, Task
from curator_bench.files.codec import from_document, json_line, parsed, to_document
from curator_bench.report.server.pages import Building

_LOOKS_EVERY_S = 2.0
_SHARE_OF_A_CORE = 0.2
"""After a look that took much processor time, the next one waits: the machine may be measuring."""
_INTEREST_S = 60.0
"""Nobody asked for a page for this long: nobody looks."""
_ENDS_WITHIN_S = 1.0


class SiteRefresher:
    """Asks its process to look at the database every few seconds, and notes what it says."""

    def __init__(self, task: Task) -> None:
        self._task = task
        self._state = Building()
        self._results: tuple[str, ...] = ()
        self._asked = threading.Event()
        self._asked_at = time.monotonic()
        self._is_closed = False
        self._writing = threading.Lock()
        self._worker: subprocess.Popen[bytes] | None = None
        self._thread = threading.Thread(target=self._run, name="curator-bench dashboard", daemon=True)
        self._thread.start()

    def building(self) -> Building:
        """Return how far the dashboard is. Asking shows that somebody looks."""
        self._asked_at = time.monotonic()
        self._asked.set()
        return self._state

    def want(self, file: str) -> None:
        """Ask for a file to be built next."""
        if (worker := self._worker) and worker.poll() is None:
            with suppress(OSError, ValueError):  # it has just ended; the next one builds everything
                self._ask(worker, Request(file))

    def results(self) -> list[Path]:
        """Return the results directories that the database names."""
        return [Path(one) for one in self._results]

    def close(self) -> None:
        """End the process and wait for it, so that nothing writes into the folder any more."""
        self._is_closed = True
        self._asked.set()
        if worker := self._worker:
            worker.kill()
        self._thread.join(_ENDS_WITHIN_S)

    def _run(self) -> None:
        while not self._is_closed:
            began, used_s = time.monotonic(), 0.0
            try:
                used_s = self._look()
            except OSError as error:
                self._note(News(problem=f"The dashboard cannot be built: {error.strerror or error}", is_done=True))
            self._rest(used_s / _SHARE_OF_A_CORE - (time.monotonic() - began))
        self._end_worker()

    def _rest(self, least_s: float) -> None:
        due = time.monotonic() + max(_LOOKS_EVERY_S, least_s)
        while not self._is_closed and (left := due - time.monotonic()) > 0:
            time.sleep(min(left, 0.2))
        if time.monotonic() - self._asked_at > _INTEREST_S:
            self._asked.clear()
            self._asked.wait()

    def _look(self) -> float:
        """Have the process look at the database. Return the processor time it took."""
        worker = self._worker if self._worker and self._worker.poll() is None else self._start()
        assert worker.stdout
        began = time.monotonic()
        self._ask(worker, Request())
        for line in worker.stdout:
            news = from_document(News, parsed(line.decode()))
            self._note(news, began)
            if news.is_done:
                return news.used_s
        code = worker.wait()
        if not self._is_closed:
            self._note(News(problem=f"The process that builds the dashboard ended with exit code {code}", is_done=True))
        return 0.0

    def _ask(self, worker: subprocess.Popen[bytes], request: Task | Request) -> None:
        assert worker.stdin
        with self._writing:
            worker.stdin.write(json_line(to_document(request)))
            worker.stdin.flush()

    def _start(self) -> subprocess.Popen[bytes]:
        """Start the process. What it puts aside goes into our folder, so that nothing stays when it is killed."""
        command = [sys.executable, "-P", "-m", "curator_bench.cli.site_worker"]
        env = {**os.environ, "TMPDIR": str(Path(self._task.site).parent)}
        worker = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=env, start_new_session=True
        )
        self._ask(worker, self._task)
        self._worker = worker
        if self._is_closed:
            worker.kill()
        return worker

    def _note(self, news: News, began: float = -math.inf) -> None:
        """Note what is known of the look that began then."""
        if news.results:
            self._results = news.results
        now = replace(self._state, doing=news.doing, problem=news.problem)
        is_shown = news.is_done and not news.problem
        self._state = replace(now, is_there=True, as_of=began) if is_shown else now

    def _end_worker(self) -> None:
        if worker := self._worker:
            worker.kill()
            worker.wait()
            for pipe in (worker.stdin, worker.stdout):
                with suppress(OSError):
                    if pipe:
                        pipe.close()
