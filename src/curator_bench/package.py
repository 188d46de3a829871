"""The version of this package, and the folder it is imported from. Standard library only."""

from __future__ import annotations

from pathlib import Path

VERSION = "0.2.0"
SOURCE = Path(__file__).parents[1]
"""The folder to add to the path of a Python that must import this same package."""
