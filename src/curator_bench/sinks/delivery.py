"""Delivers messages to one sink, in order, on a thread of its own, with retries. No caller waits for it."""

from __future__ import annotations

import itertools
import logging
import queue
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from curator_bench.errors import BenchError
from curator_bench.masking import Mask
from curator_bench.sinks.journal import Journal
from curator_bench.sinks.messages import Message
from curator_bench.sinks.sink import Refused, Sink, TryLater
from curator_bench.values import Run, RunRecord, Session, Summary

logger = logging.getLogger(__name__)

MOST_WAITING = 5_000
_FIRST_PAUSE_S = 1.0
_LONGEST_PAUSE_S = 30.0
_TRIES_AT_THE_END = 3
_LAST_WORDS_S = 0.5
UNKEPT = "unkept "
"""Prefix of the keys of messages that could not be written to the journal."""
_LONGEST_REASON = 300


@dataclass(frozen=True, slots=True)
class _Letter:
    key: str
    """The message's id in the journal; empty for messages that need not be delivered."""
    message: Message


_Bundle = list[_Letter]
"""Letters that are delivered in one call: a single message, or several results."""


class Stopping(Exception):
    """A BaseException that is not an Exception, such as SystemExit, with its type and text as the message."""


class _GivenUp(Exception):
    """Delivery was given up; the journal keeps the rest."""


@dataclass
class Account:
    """The outcome of a sink, for people. Texts are masked."""

    delivered: int = 0
    left: set[str] = field(default_factory=set)
    """Keys of undelivered messages."""
    reasons: dict[str, None] = field(default_factory=dict)
    links: dict[str, str] = field(default_factory=dict)
    """URLs by the uid of the run; the session's URL has the empty uid."""
    said: list[str] = field(default_factory=list)


class Delivery:
    """The thread, the queue and the journal of one sink."""

    def __init__(
        self, name: str, make: Callable[[Delivery], Sink[Any]], journal: Journal, call_timeout_s: float, mask: Mask
    ) -> None:
        self.name = name
        self.account = Account()
        self.journal = journal
        self._make = make
        self._call_timeout_s = call_timeout_s
        self._mask = mask
        self._waiting: queue.Queue[_Letter | None] = queue.Queue(MOST_WAITING)
        self._ended: set[str] = set()
        """Node ids of runs whose results were sent. A `run_started` for one of these is stale."""
        self._numbers = itertools.count()
        self._sink: Sink[Any] | None = None
        self._call_began: float | None = None
        self._hangs = False
        self._is_failing = False
        self._closing = threading.Event()
        self._left = threading.Event()
        self._last_delivery = time.monotonic()
        self._stale_since: float | None = None
        self._held: _Letter | None = None
        """A letter taken from the queue that could not join the last bundle."""
        self._is_last = False
        self._thread = threading.Thread(target=self._work, name=f"curator-bench sink {name}", daemon=True)

    def start(self, session: Session, source: Mapping[str, Any]) -> None:
        """Begin the journal and start the thread. The journal keeps `source`, to make the sink again."""
        try:
            self.journal.begin(session, source)
        except OSError as error:
            self.note(f"what is undelivered cannot be kept: {error}")
        self._put(_Letter("", session))
        self._thread.start()

    def tell(self, message: Message) -> None:
        """Queue a message. Neither waits nor raises."""
        if isinstance(message, RunRecord):
            self._ended.add(message.nodeid)
        elif isinstance(message, Run):
            self._put(_Letter("", message))
            return
        try:
            key = self.journal.keep(message)
        except OSError as error:
            self.note(f"what is undelivered cannot be kept: {error}")
            key = f"{UNKEPT}{next(self._numbers)}"
        self.account.left.add(key)
        self._put(_Letter(key, message))

    def _put(self, letter: _Letter) -> None:
        try:
            self._waiting.put_nowait(letter)
        except queue.Full:
            self.note(f"more than {MOST_WAITING:,} messages are waiting; further ones are left for later")

    def finish(self, summary: Summary) -> None:
        """Queue the summary as the last message. Delivery goes on as long as it succeeds; see `is_done`."""
        self.tell(summary)
        self._last_delivery = time.monotonic()
        self._closing.set()
        try:
            self._waiting.put_nowait(None)
        except queue.Full:
            self._left.set()

    @property
    def is_done(self) -> bool:
        return not self._thread.is_alive()

    def has_until(self, grace_s: float) -> float:
        """Return the monotonic time to give up: `grace_s` after the last delivery, or at once if a call hangs."""
        return 0.0 if self._hangs else self._last_delivery + grace_s

    def leave(self) -> None:
        """Stop delivering. Undelivered messages stay in the journal."""
        self._left.set()
        if self._thread.is_alive():
            self.note("took too long to finish")
            self._abandon()
            with suppress(KeyboardInterrupt):
                self._thread.join(_LAST_WORDS_S)
        try:
            self.journal.close()
        except OSError as error:
            self.note(f"what is undelivered cannot be kept: {error}")

    def note_progress(self) -> None:
        """Note that a long call makes progress, which restarts its time limit."""
        self._last_delivery = self._call_began = time.monotonic()

    def watch(self) -> None:
        """Abandon a call that takes too long. The dispatcher calls this regularly."""
        began = self._call_began
        if began is not None and not self._hangs and time.monotonic() - began > self._call_timeout_s:
            self._hangs = True
            self.note(f"a call took longer than {self._call_timeout_s:g} s")
            self._abandon()

    def note(self, reason: str) -> None:
        """Keep a reason for the user; each different reason is kept once."""
        shown = "".join(letter if letter.isprintable() else " " for letter in self._mask.hide(reason))
        shown = " ".join(shown.split())
        shown = shown if len(shown) <= _LONGEST_REASON else f"{shown[:_LONGEST_REASON]} …"
        if shown not in self.account.reasons:
            logger.debug("sink %s: %s", self.name, shown)
            self.account.reasons[shown] = None

    def _abandon(self) -> None:
        try:
            if self._sink is not None:
                self._sink.abandon()
        except Exception as error:  # a sink never fails a run
            self.note(_said(error))

    def _work(self) -> None:
        try:
            while bundle := self._next_bundle():
                self._deliver(bundle)
        except _GivenUp:
            pass
        except Exception as error:  # nor does the code around a sink
            self.note(_said(error))
        finally:
            self._close_sink()

    def _next_bundle(self) -> _Bundle:
        """Return the next letters to deliver together, or an empty list at the end."""
        first = self._held or self._next()
        self._held = None
        bundle = [first] if first is not None else []
        while bundle and self._may_take_more(bundle):
            try:
                letter = self._waiting.get_nowait()
            except queue.Empty:
                break
            if letter is not None and isinstance(letter.message, RunRecord):
                bundle.append(letter)
            elif letter is None or not self._is_stale(letter):
                self._held, self._is_last = letter, letter is None
                break
        return bundle

    def _may_take_more(self, bundle: _Bundle) -> bool:
        at_once = self._sink.at_once if self._sink is not None else 1
        return isinstance(bundle[-1].message, RunRecord) and len(bundle) < at_once

    def _is_stale(self, letter: _Letter) -> bool:
        """True for a `run_started` message whose result is already queued."""
        message = letter.message
        return isinstance(message, Run) and not isinstance(message, RunRecord) and message.nodeid in self._ended

    def _next(self) -> _Letter | None:
        """Wait for the next letter that is not stale; None at the end.

        While the queue is empty, the sink may catch up.
        """
        while not self._is_last:
            try:
                letter = self._waiting.get(timeout=self._until_catching_up())
            except queue.Empty:
                self._catch_up()
                continue
            if letter is None or self._left.is_set():
                return None
            if not self._is_stale(letter):
                return letter
        return None

    def _until_catching_up(self) -> float | None:
        if self._stale_since is None or self._sink is None:
            return None
        return max(0.0, self._stale_since + self._sink.catch_up_every_s - time.monotonic())

    def _catch_up(self) -> None:
        assert self._sink is not None
        self._stale_since = None
        try:
            self._timed(self._sink.catch_up)
        except TryLater as later:
            self._stale_since = time.monotonic() + later.after_s
        except Exception as error:  # the next update takes its place
            self.note(_said(error))

    def _deliver(self, bundle: _Bundle) -> None:
        """Deliver a bundle, with retries. Raises _GivenUp when no tries or no time are left."""
        pause_s, tries_left = _FIRST_PAUSE_S, _TRIES_AT_THE_END
        while True:
            was_closing = self._closing.is_set()
            try:
                self._hand_over(bundle)
            except Refused as refusal:
                self._refused(bundle, refusal)
                return
            except TryLater as later:
                self.note(_said(later))
                self._wait(later.after_s, self._left)
            except Exception as error:  # a sink never fails a run
                self.note(_said(error))
                tries_left -= _TRIES_AT_THE_END if was_closing and self._is_failing else was_closing
                self._is_failing = True
                if tries_left <= 0:
                    raise _GivenUp from None
                self._wait(min(pause_s, _FIRST_PAUSE_S) if was_closing else pause_s, self._closing)
                pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)
            else:
                self._delivered(bundle)
                return
            if self._left.is_set():
                raise _GivenUp

    def _wait(self, seconds: float, unless: threading.Event) -> None:
        """Pause until the event is set. If it is set already, only `leave` cuts the pause short."""
        (self._left if unless.is_set() else unless).wait(seconds)

    def _hand_over(self, bundle: _Bundle) -> None:
        self._timed(_call_for(bundle, self._sink or self._made()))

    def _made(self) -> Sink[Any]:
        with _stopping_nobody():
            self._sink = self._make(self)
            return self._sink

    def _timed(self, call: Callable[[], None]) -> None:
        self._call_began = time.monotonic()
        try:
            with _stopping_nobody():
                call()
        finally:
            self._call_began = None
            self._hangs = False

    def _delivered(self, bundle: _Bundle) -> None:
        self._last_delivery = time.monotonic()
        self._is_failing = False
        if not isinstance(bundle[0].message, Summary) and self._stale_since is None:
            self._stale_since = self._last_delivery
        for letter in bundle:
            if letter.key:
                self._note_delivery(letter.key)

    def _note_delivery(self, key: str) -> None:
        self.account.delivered += 1
        self.account.left.discard(key)
        if key.startswith(UNKEPT):
            return
        try:
            self.journal.delivered(key)
        except OSError as error:
            self.note(f"deliveries cannot be noted: {error}")

    def _refused(self, bundle: _Bundle, refusal: Refused) -> None:
        """Note a refusal. If a bundle of several was refused, deliver its letters one by one: one may be at fault."""
        if len(bundle) > 1:
            for letter in bundle:
                self._deliver([letter])
            return
        self.note(_said(refusal))
        if isinstance(bundle[0].message, Session):
            raise _GivenUp

    def _close_sink(self) -> None:
        try:
            if self._sink is not None:
                with _stopping_nobody():
                    self._sink.close()
        except Exception as error:  # a sink never fails a run
            self.note(_said(error))


def _call_for(bundle: _Bundle, sink: Sink[Any]) -> Callable[[], None]:
    message = bundle[0].message
    if len(bundle) > 1:
        return partial(
            sink.runs_finished, [letter.message for letter in bundle if isinstance(letter.message, RunRecord)]
        )
    if isinstance(message, Session):
        return partial(sink.start_session, message)
    if isinstance(message, RunRecord):
        return partial(sink.run_finished, message)
    if isinstance(message, Run):
        return partial(sink.run_started, message)
    return partial(sink.end_session, message)


@contextmanager
def _stopping_nobody() -> Iterator[None]:
    """Turn SystemExit and the like into an Exception, so that a library's sys.exit does not end the sink's thread."""
    try:
        yield
    except Exception:
        raise
    except BaseException as error:
        raise Stopping(f"{type(error).__name__}: {error}") from error


def _said(error: Exception) -> str:
    return str(error) if isinstance(error, BenchError | Stopping) else f"{type(error).__name__}: {error}"
