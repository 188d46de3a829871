"""The dashboard in a browser, for the tests of its pages. A module says in its fixture `site` which one."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect
from real_browser import DESK, Open, chromium

from curator_bench.measure.processes import busyness


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as opened:
        yield opened


@pytest.fixture
def open_page(browser: Browser, site: Path) -> Iterator[Open]:
    """Opens a page of the site. What goes wrong in it, and what it asks of anything but the site, fails the test."""
    problems: list[str] = []
    contexts = []

    def opened(path: str, base: str = "", **how: Any) -> Page:
        context = browser.new_context(**{"viewport": DESK, **how})
        contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(15_000 * busyness())
        expect.set_options(timeout=15_000 * busyness())
        home = base or site.as_uri()
        page.on("console", lambda said: problems.append(f"{said.type}: {said.text}"))
        page.on("pageerror", lambda error: problems.append(str(error)))
        page.on("request", lambda asked: problems.extend(_elsewhere(asked.url, home)))
        page.on("requestfailed", lambda asked: problems.extend(_failed(asked.url, asked.failure)))
        page.goto(f"{home}/{path}")
        return page

    yield opened
    hacked = [page.evaluate("window.hacked") for context in contexts for page in context.pages]
    for context in contexts:
        context.close()
    assert problems == []
    assert set(hacked) <= {None}


def _failed(url: str, why: str | None) -> list[str]:
    """What is asked for when the page is left is not waited for: the browser calls that aborted."""
    return [] if why == "net::ERR_ABORTED" else [f"{url}: {why}"]


def _elsewhere(url: str, home: str) -> list[str]:
    return [] if url.startswith(home) else [f"asked for {url}"]
