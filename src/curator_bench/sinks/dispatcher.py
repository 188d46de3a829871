"""All sinks of one invocation: passes events on to each, waits for them at the end, and reports the outcome."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from curator_bench import interrupts
from curator_bench.files.names import safe_name
from curator_bench.masking import Mask
from curator_bench.sinks.delivery import UNKEPT, Delivery
from curator_bench.sinks.journal import FOLDER, Journal
from curator_bench.sinks.sink import Context, Sink, SinkConfig
from curator_bench.values import Run, Session, Summary

_LOOK_EVERY_S = 0.5
_LOOK_AT_THE_END_S = 0.02
_TELLS_AFTER_S = 3.0
_SinkData = Mapping[str, Mapping[str, Any]]


@dataclass(frozen=True, slots=True)
class Chosen:
    """A sink in use: its class, and its validated block of the matrix."""

    name: str
    kind: type[Sink[Any]]
    config: SinkConfig
    matrix_dir: Path


class Dispatcher:
    """Distributes events to the sinks. Used by the controller's main thread; only `finish` waits."""

    def __init__(self, chosen: Iterable[Chosen], session: Session, source: Mapping[str, Any], mask: Mask) -> None:
        """Start a delivery for each sink. `source` is what the journals keep to make the sinks again."""
        self._session = session
        self._deliveries = [_delivery(one, session, mask) for one in chosen]
        self._ended = threading.Event()
        for delivery in self._deliveries:
            delivery.start(session, {**source, "sink": delivery.name})
        threading.Thread(target=self._watch, name="curator-bench sinks", daemon=True).start()

    def tell(self, run: Run, sink_data: _SinkData) -> None:
        """Report a run that has started, or the record of one that has ended.

        `sink_data` holds the entry's settings for each sink.
        """
        for delivery in self._deliveries:
            delivery.tell(replace(run, sink_data=sink_data.get(delivery.name, {})))

    def finish(self, summary: Summary, grace_s: float, say: Callable[[str], None] = lambda _: None) -> None:
        """End the session: wait for each sink while its deliveries succeed, or until Ctrl-C.

        `say` shows the user a line at once.
        """
        for delivery in self._deliveries:
            delivery.finish(summary)
        with suppress(KeyboardInterrupt):  # after Ctrl-C the rest of this still reports undelivered messages
            self._wait(grace_s, say)
        for delivery in self._deliveries:
            delivery.leave()
        self._ended.set()

    def _wait(self, grace_s: float, say: Callable[[str], None]) -> None:
        tells_at = time.monotonic() + _TELLS_AFTER_S
        while (left := self._left(grace_s)) and not interrupts.is_hurried():
            if time.monotonic() > tells_at:
                tells_at = math.inf
                waiting = ", ".join(f"{one.name} ({len(one.account.left)} messages left)" for one in left)
                say(f"Waiting for sinks: {waiting}. Ctrl-C leaves them to `{self._resend}`")
            time.sleep(_LOOK_AT_THE_END_S)

    def _left(self, grace_s: float) -> list[Delivery]:
        now = time.monotonic()
        return [one for one in self._deliveries if not one.is_done and now < one.has_until(grace_s)]

    @property
    def _resend(self) -> str:
        return f"curator-bench resend {self._session.directory}"

    @property
    def undelivered(self) -> int:
        return sum(len(delivery.account.left) for delivery in self._deliveries)

    def links(self) -> dict[str, dict[str, str]]:
        """Return the URL of each sink by the uid of the run. The session's URLs have the empty uid."""
        found: dict[str, dict[str, str]] = {}
        for delivery in self._deliveries:
            for uid, url in delivery.account.links.items():
                found.setdefault(uid, {})[delivery.name] = url
        return found

    def summary_lines(self) -> Iterator[str]:
        """Yield lines for the user: the sinks' own lines and links, and what was not delivered."""
        for delivery in self._deliveries:
            account = delivery.account
            yield from account.said
            if "" in account.links:
                yield f"{delivery.name}: {account.links['']}"
            why = "; ".join(account.reasons)
            if account.left:
                yield (
                    f"warning: sink {delivery.name}: {len(account.left)} of {account.delivered + len(account.left)} "
                    f"messages not delivered{f' ({why})' if why else ''}; {self._where(delivery)}"
                )
            elif why:
                yield f"warning: sink {delivery.name}: delivered after: {why}"

    def _where(self, delivery: Delivery) -> str:
        lost = sum(key.startswith(UNKEPT) for key in delivery.account.left)
        if lost == len(delivery.account.left):
            return "they are lost"
        kept = f"they are in {delivery.journal.path}{f', but for {lost} that are lost' if lost else ''}"
        return f"{kept}: `{self._resend}` delivers them"

    def _watch(self) -> None:
        while not self._ended.wait(_LOOK_EVERY_S):
            for delivery in self._deliveries:
                delivery.watch()


def _delivery(chosen: Chosen, session: Session, mask: Mask) -> Delivery:
    directory = Path(session.directory)

    def make(delivery: Delivery) -> Sink[Any]:
        account = delivery.account
        context = Context(
            name=safe_name(chosen.name),
            session_dir=directory,
            matrix_dir=chosen.matrix_dir,
            link=lambda uid, url: account.links.__setitem__(uid, mask.hide(url)),
            say=lambda text: account.said.append(mask.hide(text)),
            alive=delivery.note_progress,
            mask=mask,
        )
        return chosen.kind(chosen.config, context)

    journal = Journal(directory / FOLDER / f"{safe_name(chosen.name)}.jsonl", session.invocation)
    return Delivery(chosen.name, make, journal, chosen.config.call_timeout_s, mask)
