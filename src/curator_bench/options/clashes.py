"""Advice for a conftest or plugin that defines an option of curator-bench."""

from __future__ import annotations

import re
import traceback
from pathlib import Path

_PLUGIN = str(Path(__file__).parent.with_name("plugin.py"))
_CLASH = re.compile(r"ValueError: option .*already (?:added|used).*")
_OURS = re.compile(r"--bench(?:mark(?:-db)?|-[\w-]+)(?![\w-])")


def clash_in(error: ValueError) -> str | None:
    """Return advice for an option of ours that is defined twice; None for any other error."""
    frames = traceback.extract_tb(error.__traceback__)
    places = [frame.filename for frame in frames if frame.name == "pytest_addoption" and frame.filename != _PLUGIN]
    return _advice(f"ValueError: {error}", places[-1] if places else "")


def clash_in_text(text: str) -> str | None:
    """Return the same advice from the text of an error."""
    places = re.findall(r"^(\S+):[0-9]+: in pytest_addoption", text, re.MULTILINE)
    return _advice(text, places[-1] if places else "")


def _advice(text: str, place: str) -> str | None:
    said = _CLASH.search(text)
    ours = _OURS.search(said[0]) if said else None
    if ours is None:
        return None
    return (
        f"{place or 'Another plugin'} defines the option {ours[0]}, which curator-bench has as well. Remove it there:"
        " `pytest --benchmark` then records with curator-bench (see docs/from-coiled-benchmarks.md)."
        " To run without curator-bench: pytest -p no:curator_bench"
    )
