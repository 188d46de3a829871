"""The manual builds as a site; what is missing or leads nowhere is found."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
EXTERNAL = re.compile(
    r"""(?:<script[^>]*\ssrc|<link[^>]*rel="?stylesheet"?[^>]*href|<img[^>]*src)="?(https?:[^" >]+)"""
)


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """A copy of what the site is made of, to be broken."""
    shutil.copytree(ROOT / "docs", tmp_path / "clone" / "docs")
    for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md", "LICENSE"):
        shutil.copy(ROOT / name, tmp_path / "clone")
    for name in ("benchmarks", "src", "ci", "tests"):
        (tmp_path / "clone" / name).symlink_to(ROOT / name)
    return tmp_path / "clone"


def build(clone: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "docs/build_site.py"]
    return subprocess.run(command, cwd=clone, capture_output=True, text=True, timeout=120, check=False)


def test_every_page_is_in_the_site_and_needs_nothing_from_elsewhere(clone: Path) -> None:
    outcome = build(clone)
    assert outcome.returncode == 0, outcome.stdout + outcome.stderr
    site = clone / "build" / "site"
    pages = {file.stem for file in (clone / "docs").glob("*.md")} | {"index", "contributing", "changelog"}
    assert pages <= {file.stem for file in site.glob("*.html")}
    assert [found for file in site.glob("*.html") for found in EXTERNAL.findall(file.read_text())] == []


@pytest.mark.parametrize("link", ["[gone](gone.md)", "[gone](matrix.md#no-such-part)", "[gone](../src/gone.py)"])
def test_a_link_that_leads_nowhere_stops_it(clone: Path, link: str) -> None:
    page = clone / "docs" / "requirements.md"
    page.write_text(f"{page.read_text()}\n{link}\n")
    outcome = build(clone)
    assert outcome.returncode == 1
    assert "the site was not built" in outcome.stderr


def test_readme_lists_every_page_of_the_manual() -> None:
    readme = (ROOT / "README.md").read_text()
    assert [file.name for file in (ROOT / "docs").glob("*.md") if f"(docs/{file.name})" not in readme] == []
