"""Delivers what a session's sinks could not deliver earlier: the work of `curator-bench resend`."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from curator_bench.files import safe_files
from curator_bench.files.locking import locked
from curator_bench.files.names import safe_name
from curator_bench.masking import Mask
from curator_bench.sinks.dispatcher import Chosen
from curator_bench.sinks.journal import FOLDER, Journal, Undelivered, forget
from curator_bench.sinks.messages import Message
from curator_bench.sinks.sink import Context, Refused, Sink, TryLater
from curator_bench.values import RunRecord, Summary
from curator_bench.words import readable_seconds

_PAUSES_S = (1.0, 3.0)
_LONGEST_PAUSE_S = 60.0


def files_of(session_dir: Path) -> list[Path]:
    """Return the journals in a session's folder, one per sink with undelivered messages. Only regular files count."""
    return sorted(path for path in (session_dir / FOLDER).glob("*.jsonl") if safe_files.is_file(path))


@contextmanager
def alone(session_dir: Path, journal: Path) -> Iterator[bool]:
    """Lock a journal for resending. True if the lock was free; it is held until the block is left."""
    lock = session_dir / "sinks" / f"{journal.stem}.resend.lock"
    lock.parent.mkdir(exist_ok=True)
    with ExitStack() as held:
        try:
            held.enter_context(locked(lock, wait=False))
        except BlockingIOError:
            yield False
        else:
            yield True


class Resending:
    """Delivers the messages of one invocation to one sink again. Raises the sink's errors; progress is noted."""

    def __init__(self, chosen: Chosen, path: Path, left: Undelivered, mask: Mask) -> None:
        self._left = left
        self._path = path
        self._journal = Journal(path, left.invocation)
        self._mask = mask
        self.lines: list[str] = []
        """Lines for the user."""
        self.links: dict[str, str] = {}
        context = Context(
            name=safe_name(chosen.name),
            session_dir=Path(left.session.directory),
            matrix_dir=chosen.matrix_dir,
            link=lambda uid, url: self.links.__setitem__(uid, mask.hide(url)),
            say=lambda text: self.lines.append(mask.hide(text)),
            mask=mask,
        )
        self._sink: Sink[Any] = chosen.kind(chosen.config, context)

    def run(self) -> int:
        """Deliver all messages. Returns the number of results delivered."""
        try:
            self._tell(self._sink.start_session, self._left.session)
            results = [(key, message) for key, message in self._left.messages.items() if isinstance(message, RunRecord)]
            for key, result in results:
                self._tell(self._sink.run_finished, result)
                self._journal.delivered(key)
            self._tell(self._sink.end_session, self._end())
            forget(self._path, self._left.invocation)
            return len(results)
        finally:
            self._sink.close()

    def _tell(self, call: Any, message: Message) -> None:
        for pause_s in (*_PAUSES_S, None):
            try:
                call(message)
            except Refused:
                raise
            except TryLater as later:
                if pause_s is None or later.after_s > _LONGEST_PAUSE_S:
                    raise Refused(f"{later} of {readable_seconds(later.after_s)}; resend the rest later") from later
                time.sleep(later.after_s)
            except Exception:  # a second try may help, whatever the error is
                if pause_s is None:
                    raise
                time.sleep(pause_s)
            else:
                return

    def _end(self) -> Summary:
        """Return the summary that is in the journal. If the invocation was killed, make one from its results."""
        messages = list(self._left.messages.values())
        if ends := [one for one in messages if isinstance(one, Summary)]:
            return ends[-1]
        started_at = self._left.session.started_at
        last = max((one.ended_at for one in messages if isinstance(one, RunRecord | Summary)), default=started_at)
        counts = Counter(str(one.verdict) for one in messages if isinstance(one, RunRecord))
        seconds = (_moment(last) - _moment(started_at)).total_seconds()
        return Summary(dict(counts), started_at, last or started_at, seconds)


def _moment(stamp: str) -> datetime:
    return datetime.fromisoformat(stamp) if stamp else datetime.now(UTC)
