"""A browser for the tests: the system's Chromium, without a window. It ends with the tests that asked for it."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Page, ViewportSize, sync_playwright

Open = Callable[..., Page]
PHONE, DESK = ViewportSize(width=390, height=844), ViewportSize(width=1280, height=900)

_FINDER = Path(__file__).parents[2] / "ci" / "chromium.sh"


@contextmanager
def chromium() -> Iterator[Browser]:
    """Skips the tests where there is none; a CI machine must have one."""
    with sync_playwright() as playwright:
        # Its sandbox needs rights that containers and CI machines do not give.
        browser = playwright.chromium.launch(executable_path=found_chromium(), args=["--no-sandbox"])
        try:
            yield browser
        finally:
            browser.close()


def found_chromium() -> str:
    """Where ci/chromium.sh finds it: it is to install nothing while tests run."""
    found = subprocess.run([_FINDER, "--look"], stdout=subprocess.PIPE, text=True, check=False).stdout.strip()
    if not found:
        to_install = "there is no Chromium here: apt-get install chromium, or name one in CHROMIUM"
        (pytest.fail if os.environ.get("CI") == "true" else pytest.skip)(to_install)
    return found


def report(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    import warm  # not at hand where pictures are taken

    done = warm.run("curator-bench", "report", *words, cwd=folder)
    assert done.returncode == 0, done.stderr
    return done


def page_of(site: Path, kind: str, beginning: str) -> str:
    (found,) = (site / kind).glob(f"{beginning}-????????.html")
    return found.relative_to(site).as_posix()


def address_of(page: Page) -> str:
    """As the page itself has it: Playwright hears of a change within the page a little later."""
    return str(page.evaluate("location.href"))


def unfold(page: Page) -> None:
    """Opens every part that is folded. Clicks would change which ones are, one after the other."""
    page.locator("details:not([open])").evaluate_all("all => all.forEach(one => { one.open = true; })")


def assert_accessible(page: Page, size: ViewportSize) -> None:
    """Asserts that axe finds nothing, and that the page is no wider than the screen."""
    found = Axe().run(page, options={"preload": False})  # it would fetch the style sheets, which no page may
    assert found.violations_count == 0, found.generate_report()
    assert page.evaluate("document.documentElement.scrollWidth") <= size["width"]
