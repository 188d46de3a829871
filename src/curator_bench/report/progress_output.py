"""The progress as text: live lines on a terminal, a line now and then in a pipe, and progress.json."""

from __future__ import annotations

import dataclasses
import logging
import math
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any, TextIO

from curator_bench.files.codec import from_document
from curator_bench.report.live import plain
from curator_bench.report.progress import Progress, ProgressSnapshot, Underway
from curator_bench.words import readable_seconds

_FILE_EVERY_S = 1.0
_MOST_NAMED = 8


class ProgressOutput:
    """Publishes the progress on threads of its own, from the first run on."""

    def __init__(
        self,
        progress: Progress,
        write: Callable[[dict[str, Any]], None],
        facts: Mapping[str, str | int],
        line_every_s: float,
    ) -> None:
        """`write` writes progress.json; `facts` are further keys in it."""
        self.progress = progress
        self._write = write
        self._facts = facts
        self._line_every_s = line_every_s
        self._threads: list[Repeated] = []
        self._out: TextIO | None = None
        self._writing = threading.Lock()
        self._has_ended = False

    def start(self) -> None:
        self._threads.append(Repeated(_FILE_EVERY_S, self._renew_file))

    def start_lines(self, out: TextIO, is_amid_a_line: Callable[[], bool]) -> None:
        """Print a line of progress now and then, for output that cannot be redrawn. The reader may be gone."""
        self._out = out

        def tell() -> None:
            start = "\n    " if is_amid_a_line() else "    "
            with suppress(OSError):
                print(f"{start}{line(self._now())}", file=out, flush=True)

        if self._line_every_s:
            self._threads.append(Repeated(self._line_every_s, tell))

    def screen(self) -> list[str]:
        return screen(self._now())

    def close(self) -> None:
        """Stop, and write progress.json a last time, unless nothing began: a refused session leaves no file."""
        has_begun = bool(self._threads)
        for thread in self._threads:
            thread.close()
        if self._out is not None:
            with suppress(OSError):
                self._out.close()
        with self._writing:
            self._has_ended = True
        if has_begun or self.progress.has_skipped:
            self._write_file("ended")

    def _now(self) -> ProgressSnapshot:
        self.progress.look_up()
        return self.progress.now()

    def _renew_file(self) -> None:
        self.progress.look_up()
        with self._writing:
            if not self._has_ended:
                self._write_file("running")

    def _write_file(self, state: str) -> None:
        """Write progress.json. A failure is only logged, because a full disk may have room the next time."""
        try:
            now = document(self.progress.now())
            over = {"left_s": None} if state == "ended" else {}
            self._write({**self._facts, "state": state, **now, **over})
        except OSError as error:
            logging.getLogger(__name__).debug("progress.json could not be written: %s", error)


class Repeated:
    """Calls a function every few seconds, on a thread of its own."""

    def __init__(self, every_s: float, act: Callable[[], None]) -> None:
        self._every_s, self._act = every_s, act
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._run, name="curator-bench progress", daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._closed.set()
        self._thread.join(2)

    def _run(self) -> None:
        while not self._closed.wait(self._every_s):
            self._act()


def document(now: ProgressSnapshot) -> dict[str, Any]:
    """Return the content of progress.json."""
    return {
        "at": datetime.now(UTC).isoformat(timespec="milliseconds"),
        "total": now.total,
        "done": now.done,
        "skipped_by_resume": now.skipped_by_resume,
        "done_elsewhere": now.done_elsewhere,
        "running_elsewhere": list(now.running_elsewhere),
        "failed": now.failed,
        "waiting": now.waiting,
        "counts": dict(now.counts),
        "running": [_run_document(run) for run in now.running],
        "elapsed_s": round(now.elapsed_s, 1),
        "left_s": None if now.left_s is None else round(now.left_s, 1),
        "gpu_hours": round(now.gpu_hours, 4),
    }


def _run_document(run: Underway) -> dict[str, Any]:
    found = dataclasses.asdict(run)
    del found["in_fleet"]
    return {**found, "gpus": list(run.gpus), "elapsed_s": round(run.elapsed_s, 1)}


def snapshot_in(document: Mapping[str, Any]) -> ProgressSnapshot | None:
    """Return the progress in a progress.json; None if the file is missing or has other content."""
    try:
        running = [{"in_fleet": False, **run} for run in document["running"]]
        found = from_document(ProgressSnapshot, {**document, "running": running})
    except (KeyError, TypeError, ValueError):
        return None
    times = (found.elapsed_s, found.left_s or 0, found.gpu_hours, *(run.elapsed_s for run in found.running))
    return found if all(math.isfinite(one) and one >= 0 for one in times) else None


def screen(now: ProgressSnapshot) -> list[str]:
    """Return the live lines of a terminal: the totals, and a line for each run in progress."""
    return [f"    {head(now)}", *(f"    ⏱ {_run_line(run)}" for run in now.running)]


def line(now: ProgressSnapshot) -> str:
    """Return the progress in one line."""
    named = [_run_words(run) for run in now.running[:_MOST_NAMED]]
    if len(now.running) > _MOST_NAMED:
        named.append(f"{len(now.running) - _MOST_NAMED} more")
    return head(now) + (f": {'; '.join(named)}" if named else "")


def head(now: ProgressSnapshot) -> str:
    """Return the totals and the time left, such as `3 of 4 done, 1 failed, 1 running, about 7.47 s left`."""
    return ", ".join(_head(now))


def _head(now: ProgressSnapshot) -> Iterator[str]:
    not_here = [f"{now.skipped_by_resume} skipped by resume"] if now.skipped_by_resume else []
    not_here += [f"{now.done_elsewhere} by another invocation"] if now.done_elsewhere else []
    done = now.done + now.skipped_by_resume + now.done_elsewhere
    yield f"{done} of {now.total} done" + (f" ({', '.join(not_here)})" if not_here else "")
    if now.failed:
        yield f"{now.failed} failed"
    yield f"{len(now.running)} running"
    if now.running_elsewhere:
        yield f"{len(now.running_elsewhere)} running elsewhere"
    if now.left_s:  # zero when all is done, or when a run takes longer than ever
        yield f"about {readable_seconds(now.left_s)} left"
    if now.gpu_hours:
        yield f"{now.gpu_hours:.2f} GPU-hours"


def _run_line(run: Underway) -> str:
    state = "" if run.state in ("", "running") else f" ({run.state})"
    last = plain(run.last_line)
    return f"{_run_words(run)}{state}{f' │ {last}' if last else ''}"


def _run_words(run: Underway) -> str:
    of = f" of about {readable_seconds(run.expected_s)}" if run.expected_s else ""
    return f"{run.name}{where(run.host if run.in_fleet else '', run.gpus)} {readable_seconds(run.elapsed_s)}{of}"


def where(host: str, gpus: Sequence[str]) -> str:
    """Return text such as ` on node7, GPU 3`; empty for a run in this process."""
    return (f" on {host}" if host else "") + (f", GPU {','.join(gpus)}" if gpus else "")
