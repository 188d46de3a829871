"""Takes the pictures of docs/dashboard.md anew: python tests/report/screenshots.py. No test; it needs Chromium."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import nightly_history as nights
from playwright.sync_api import Browser, ViewportSize
from real_browser import chromium

IMAGES = Path(__file__).parents[2] / "docs" / "images"
DESK, PHONE = ViewportSize(width=1280, height=800), ViewportSize(width=390, height=700)


def main() -> None:
    IMAGES.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as folder, chromium() as browser:
        nights.make(Path(folder), "minhash")
        command = Path(sys.executable).with_name("curator-bench")
        subprocess.run([command, "report", "--out", "site", "--title", "Nightly benchmarks"], cwd=folder, check=True)
        site = Path(folder, "site")
        (entry,) = (site / "entries").glob("removal-*.html")
        (before,) = (site / "sessions").glob("nightly-29-*.html")
        (after,) = (site / "sessions").glob("nightly-30-*.html")
        metric = f"#metric={nights.METRIC}"
        _take(browser, "dashboard-overview", site / "index.html", "", viewport=DESK)
        _take(browser, "dashboard-overview-dark", site / "index.html", "", viewport=DESK, color_scheme="dark")
        _take(browser, "dashboard-entry", entry, metric, viewport=DESK)
        _take(browser, "dashboard-entry-dark", entry, metric, viewport=DESK, color_scheme="dark")
        _take(browser, "dashboard-phone", entry, metric, viewport=PHONE)
        _take(
            browser,
            "dashboard-compare",
            site / "compare.html",
            f"#a={before.stem}&b={after.stem}&which=all",
            viewport=DESK,
        )


def _take(browser: Browser, name: str, page: Path, place: str, **how: Any) -> None:
    context = browser.new_context(**how)
    opened = context.new_page()
    opened.goto(page.as_uri() + place)
    opened.wait_for_timeout(1500)  # smooth scrolling comes to rest
    if "entry" in name:
        opened.locator(f".chart[data-metric={nights.METRIC}] .plot").focus()
        opened.keyboard.press("End")
        for _ in range(nights.NIGHTS - 1 - nights.SLOWER_FROM):
            opened.keyboard.press("ArrowLeft")
        opened.keyboard.press("Enter")
        opened.wait_for_timeout(300)
    opened.screenshot(path=IMAGES / f"{name}.png")
    context.close()


if __name__ == "__main__":
    main()
