"""What the generators of the suites make, and what is in a folder."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path


def make(script: Path, folder: Path, *options: str) -> None:
    """The smallest size."""
    subprocess.run([sys.executable, script, "--size", "S", "--out", folder, *options], check=True)


def contents(folder: Path) -> dict[str, bytes]:
    return {str(file.relative_to(folder)): file.read_bytes() for file in folder.rglob("*") if file.is_file()}
