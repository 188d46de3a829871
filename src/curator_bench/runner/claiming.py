"""Claims of entries. A process claims an entry before the run and releases it afterwards, so that no two run it."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Generator
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from curator_bench.collection.benchmarks import BENCHMARKS
from curator_bench.collection.items import entry_of
from curator_bench.collection.multiplied import own_nodeid
from curator_bench.errors import BenchError
from curator_bench.execution.claims import Claims, Silence, Taken
from curator_bench.values import Entry

NOT_HERE = pytest.StashKey[str]()
"""The reason why an item's entry is not run by this invocation."""
_LOOK_EVERY_S = 1.0
_ANOTHER_WORKER_S = 0.05
_CLAIMS = pytest.StashKey[Claims]()


def claim(item: pytest.Item, entry: Entry) -> str | None:
    """Claim the entry. Returns the reason if that is not possible, else None."""
    benchmarks = item.config.stash[BENCHMARKS]
    if NOT_HERE in item.stash:
        del item.stash[NOT_HERE]
    try:
        _take_in_turn(item.config, entry)
    except Taken as taken:
        item.stash[NOT_HERE] = f"{entry.id}: {taken}"
        return item.stash[NOT_HERE]
    except OSError as error:  # the disk cannot be written, which the run itself will report
        logging.getLogger(__name__).debug("%s is not claimed: %s", entry.id, error)
    if benchmarks.settings.resume is not None:
        from curator_bench.runner.resume_rules import is_done

        if is_done(item.config, entry):
            release(item, entry)
            item.stash[NOT_HERE] = f"{entry.id}: another invocation has finished it"
            return item.stash[NOT_HERE]
    return None


def _take_in_turn(config: pytest.Config, entry: Entry) -> None:
    """Take the claim, after any other worker of this invocation that repeats the entry. Raises Taken for others."""
    own = config.stash[BENCHMARKS].settings.invocation
    while True:
        try:
            return _claims(config).take(_folder(config, entry))
        except Taken as taken:
            if taken.by.invocation != own:
                raise
            time.sleep(_ANOTHER_WORKER_S)


class TurnHooks:
    """Hooks of a worker of pytest-xdist: another one may run the same entry, which pytest-repeat multiplied."""

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, object, object]:
        """Claim the entry before its item, so that waiting does not count as the item's time."""
        entry = entry_of(item) if own_nodeid(item) != item.nodeid else None
        if entry is None:
            return (yield)
        with suppress(BenchError):  # raised again when the item runs
            claim(item, entry)
        try:
            return (yield)
        finally:
            release(item, entry)


def release(item: pytest.Item, entry: Entry) -> None:
    """Release the entry. Its results are written, so others can read them."""
    _claims(item.config).release(_folder(item.config, entry))


def silence_of(config: pytest.Config, entry: Entry) -> Silence | None:
    """Return the silence of another machine that claimed the entry and may be dead; None without --bench-resume."""
    if config.stash[BENCHMARKS].settings.resume is None:
        return None
    return _claims(config).silence(_folder(config, entry))


def in_words(silence: Silence) -> str:
    until = datetime.now(UTC) + timedelta(seconds=silence.left_s)
    return f"claimed by {silence.by}; taken over at {until:%H:%M:%S} UTC unless it gives a sign of life"


def await_a_sign(config: pytest.Config, entry: Entry, say: Callable[[str], None]) -> None:
    """Wait until it is known whether another machine's claim holds."""
    is_told = False
    while (silence := silence_of(config, entry)) is not None and silence.left_s > 0:
        if not is_told:
            say(f"{entry.id} is {in_words(silence)}")
            is_told = True
        time.sleep(min(_LOOK_EVERY_S, silence.left_s))


def _folder(config: pytest.Config, entry: Entry) -> Path:
    return config.stash[BENCHMARKS].session_dir.joinpath(*entry.folder)


def leave_to_others(item: pytest.Item) -> None:
    """End the item: skip it if the session is shared by --bench-resume, or else fail it."""
    reason = item.stash[NOT_HERE]
    if item.config.stash[BENCHMARKS].settings.resume is not None:
        pytest.skip(reason)
    pytest.fail(f"{reason}; share the session with --bench-resume, or name another --bench-session", pytrace=False)


def _claims(config: pytest.Config) -> Claims:
    if _CLAIMS not in config.stash:
        benchmarks = config.stash[BENCHMARKS]
        config.stash[_CLAIMS] = Claims(benchmarks.session_dir, benchmarks.settings.invocation)
        config.add_cleanup(config.stash[_CLAIMS].close)
    return config.stash[_CLAIMS]
