"""How soon a page is there for a person: in a browser without a window, from a file."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from playwright.sync_api import Browser

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")


def find_chromium() -> str:
    """CHROMIUM, or what the system has."""
    found = os.environ.get("CHROMIUM") or next(filter(None, map(shutil.which, NAMES)), None)
    if not found:
        raise SystemExit("there is no Chromium here: apt-get install chromium, or name one in CHROMIUM")
    return found


@contextmanager
def browser() -> Iterator[Browser]:
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        # Its sandbox needs rights that containers and CI machines do not give.
        opened = playwright.chromium.launch(executable_path=find_chromium(), args=["--no-sandbox"])
        yield opened
        opened.close()


def usable_ms(opened: Browser, page: Path, ready: str) -> float:
    """From asking for the page until its programs have run and `ready`, a selector, finds something."""
    tab = opened.new_page()
    start = time.perf_counter()
    tab.goto(page.as_uri(), wait_until="load")
    tab.locator(ready).first.wait_for(state="attached")
    took = 1000 * (time.perf_counter() - start)
    tab.close()
    return took
