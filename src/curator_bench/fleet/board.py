"""The actor between runs and driver: runs deliver reports and files; the driver takes them, and stops runs."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Mapping, Sequence
from typing import Any

from curator_bench.fleet.file_transfer import Piece, Problems
from curator_bench.fleet.quarantine import ENTRIES_WITH_ERRORS

_PARCELS_AT_ONCE = 8
"""The limit on the board's memory: a parcel has a few megabytes."""


class Board:
    """Keep the newest report of each run until the driver asks for it."""

    def __init__(self) -> None:
        self._news: dict[str, dict[str, Any]] = {}
        self._unwanted: set[str] = set()
        self._refusals: dict[tuple[str, str], set[str]] = {}
        """By node and GPU, the entries whose GPU check failed there."""
        self._there_is_news = asyncio.Event()
        self._parcels: dict[str, tuple[str, list[Piece]]] = {}
        """By key, the parcels the driver has not taken yet, with the run they belong to."""
        self._answers: dict[str, asyncio.Future[Problems]] = {}
        self._there_are_parcels = asyncio.Event()
        self._room_for_parcels = asyncio.Semaphore(_PARCELS_AT_ONCE)

    async def note(self, uid: str, word: dict[str, Any]) -> bool:
        """Take a report of a run; true if the run is to stop."""
        self._news.setdefault(uid, {}).update(word)
        self._there_is_news.set()
        return uid in self._unwanted

    async def news(self) -> dict[str, dict[str, Any]]:
        """Give all reports that came since the last call; wait until there is one."""
        await self._there_is_news.wait()
        self._there_is_news.clear()
        news, self._news = self._news, {}
        return news

    async def deliver(self, uid: str, parcel: list[Piece]) -> Problems:
        """Hand a parcel on to the driver, and give its answer once the files are written."""
        async with self._room_for_parcels:
            key = uuid.uuid4().hex
            self._parcels[key] = uid, parcel
            answer: asyncio.Future[Problems] = asyncio.get_running_loop().create_future()
            self._answers[key] = answer
            self._there_are_parcels.set()
            try:
                return await answer
            finally:
                self._parcels.pop(key, None)
                self._answers.pop(key, None)

    async def parcels(self, answers: Mapping[str, Problems]) -> dict[str, tuple[str, list[Piece]]]:
        """Take the driver's answers to the last parcels, and give it the next ones as soon as there are any."""
        for key, problems in answers.items():
            waiting = self._answers.get(key)
            if waiting is not None and not waiting.done():
                waiting.set_result(problems)
        await self._there_are_parcels.wait()
        self._there_are_parcels.clear()
        parcels, self._parcels = self._parcels, {}
        return parcels

    async def refused(self, node: str, gpus: Sequence[str], entry: str) -> None:
        """Note a GPU that failed its check. The next run may get it before the pytest process hears of the failure."""
        for gpu in gpus:
            self._refusals.setdefault((node, gpu), set()).add(entry)

    async def quarantined_gpus(self, node: str) -> frozenset[str]:
        return frozenset(
            gpu
            for (where, gpu), entries in self._refusals.items()
            if where == node and len(entries) >= ENTRIES_WITH_ERRORS
        )

    async def stop(self, uid: str) -> None:
        self._unwanted.add(uid)
