"""The actor that runs tell where they are and how far; the driver listens to it, and through it tells them to stop."""

from __future__ import annotations

import asyncio
from typing import Any


class Board:
    """Keeps the newest word of each run until the driver has asked for it."""

    def __init__(self) -> None:
        self._news: dict[str, dict[str, Any]] = {}
        self._unwanted: set[str] = set()
        self._gpus_left_out: dict[str, frozenset[str]] = {}
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

    async def leave_out(self, node: str, gpu: str) -> None:
        self._gpus_left_out[node] = self._gpus_left_out.get(node, frozenset()) | {gpu}

    async def gpus_left_out(self, node: str) -> frozenset[str]:
        return self._gpus_left_out.get(node, frozenset())

    async def stop(self, uid: str) -> None:
        self._unwanted.add(uid)
