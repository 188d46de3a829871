"""The actor that runs tell where they are and how far; the driver listens to it, and through it tells them to stop."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from curator_bench.fleet.left_out import ENOUGH


class Board:
    """Keeps the newest word of each run until the driver has asked for it."""

    def __init__(self) -> None:
        self._news: dict[str, dict[str, Any]] = {}
        self._unwanted: set[str] = set()
        self._refusals: dict[tuple[str, str], set[str]] = {}
        """By node and GPU: the entries that were refused it."""
        self._there_is_news = asyncio.Event()

    async def note(self, uid: str, word: dict[str, Any]) -> bool:
        """Answers whether the run is to stop."""
        self._news.setdefault(uid, {}).update(word)
        self._there_is_news.set()
        return uid in self._unwanted

    async def news(self) -> dict[str, dict[str, Any]]:
        """Answers as soon as there is any."""
        await self._there_is_news.wait()
        self._there_is_news.clear()
        news, self._news = self._news, {}
        return news

    async def refused(self, node: str, gpus: Sequence[str], entry: str) -> None:
        """What waits for the GPU may have it within milliseconds, before pytest has heard of it."""
        for gpu in gpus:
            self._refusals.setdefault((node, gpu), set()).add(entry)

    async def gpus_left_out(self, node: str) -> frozenset[str]:
        return frozenset(
            gpu for (where, gpu), entries in self._refusals.items() if where == node and len(entries) >= ENOUGH
        )

    async def stop(self, uid: str) -> None:
        self._unwanted.add(uid)
