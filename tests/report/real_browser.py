"""A browser for the tests: the system's Chromium, without a window. It ends with the tests that asked for it."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from playwright.sync_api import Browser, sync_playwright

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
