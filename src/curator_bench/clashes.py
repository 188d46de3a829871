"""A conftest or a plugin that has an option of ours: a message that says what to do."""

from __future__ import annotations

import re
import traceback
from pathlib import Path

_PLUGIN = str(Path(__file__).with_name("plugin.py"))
_CLASH = re.compile(r"ValueError: option .*already (?:added|used).*")
_OURS = re.compile(r"--bench(?:mark(?:-db)?|-[\w-]+)(?![\w-])")


def clash_in(error: ValueError) -> str | None:
    """What to do about an option that is defined twice; None where the error is another, or none of ours is."""
    frames = traceback.extract_tb(error.__traceback__)
    places = [frame.filename for frame in frames if frame.name == "pytest_addoption" and frame.filename != _PLUGIN]
    return _advice(f"ValueError: {error}", places[-1] if places else "")


def clash_told_in(text: str) -> str | None:
    """The same, of an error as pytest shows it."""
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
