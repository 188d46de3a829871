"""The version of this package, and the folder it is imported from; the standard library is all it needs."""

from __future__ import annotations

from pathlib import Path

VERSION = "0.1.0"
SOURCE = Path(__file__).parents[1]
"""What a Python that is to import this very package has on its path."""
