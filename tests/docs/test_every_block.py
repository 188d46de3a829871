"""No command stands in README or the manual that is neither run by a test nor says why not."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from test_examples import PAGES

ROOT = Path(__file__).parents[2]
BLOCK = re.compile(
    r"^(?P<why_not><!-- not run: [^\n]{10,} -->\n)?```(?P<language>\w*)\n(?P<text>.*?)^```$", re.M | re.S
)
INDENTED = re.compile(
    r"(?<!-->\n)(?<=\n)\n {4}(?=(?:pytest|make|curator-bench|docker|pip|python|sqlite3|alembic|ci/|[A-Z_]+=)\S* )[^\n]+"
)
COMMANDS = ("console", "sh", "bash", "shell")
EVERY_PAGE = ["README.md", *(f"docs/{file.name}" for file in sorted((ROOT / "docs").glob("*.md")))]


@pytest.mark.parametrize("page", EVERY_PAGE)
def test_every_command_is_run_or_says_why_not(page: str) -> None:
    text = (ROOT / page).read_text()
    is_run = page in PAGES
    blocks = [block for block in BLOCK.finditer(text) if block["language"] in COMMANDS and not block["why_not"]]
    assert [block[0] for block in blocks if not is_run or block["language"] != "console"] == []
    assert INDENTED.findall(text) == []


def test_a_command_that_is_not_run_is_found() -> None:
    assert INDENTED.search("See:\n\n    pytest benchmarks -m x\n")
    assert not INDENTED.search("See:\n\n<!-- not run: takes an hour -->\n    pytest benchmarks -m x\n")
    assert not INDENTED.search("See:\n\n    some text\n")
