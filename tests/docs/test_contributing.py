"""CONTRIBUTING names files and names that exist, so that a newcomer finds the place of a change."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "src" / "curator_bench"
TEXT = (ROOT / "CONTRIBUTING.md").read_text()
PATH = re.compile(r"`((?:[\w.]+/)*[\w.]+(?:\.py|/))`")
IDENTIFIER = re.compile(r"`(_?[A-Za-z]\w+)`")
ROWS = [
    line for line in TEXT.split("### Where to add something", 1)[1].split("\n#", 1)[0].splitlines() if line[:3] == "| a"
]


def places(path: str) -> list[Path]:
    """The file or folder; of a file to be written (NAME.py) the folder."""
    path = re.sub(r"NAME\.py$", "", path)
    return [place / path for place in (PACKAGE, ROOT) if (place / path).exists()]


def sources(row: str) -> Iterator[str]:
    for path in PATH.findall(row):
        for place in places(path):
            yield from (file.read_text() for file in (place.glob("*.py") if place.is_dir() else [place]))


def test_every_file_that_contributing_names_is_there() -> None:
    assert [path for path in PATH.findall(TEXT) if not places(path)] == []


@pytest.mark.parametrize("row", ROWS, ids=[row.split("|")[1].strip() for row in ROWS])
def test_the_names_in_a_row_are_in_its_files(row: str) -> None:
    texts = list(sources(row))
    assert [name for name in IDENTIFIER.findall(row) if not any(name in text for text in texts)] == []
