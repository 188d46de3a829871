"""Wheels of small packages, in a folder that pip and uv can be pointed at instead of an index."""

from __future__ import annotations

import zipfile
from collections.abc import Sequence
from pathlib import Path


def make_wheels(folder: Path, *versions: str, name: str = "tiny") -> Path:
    """Make wheels of a package that has nothing but its version."""
    folder.mkdir(exist_ok=True)
    for version in versions:
        make_wheel(folder, name, version, f"VERSION = {version!r}\n")
    return folder


def make_wheel(folder: Path, name: str, version: str, source: str, requires: Sequence[str] = ()) -> None:
    """Make a wheel of a package with one module of its name."""
    about = f"{name}-{version}.dist-info"
    needed = "".join(f"Requires-Dist: {one}\n" for one in requires)
    with zipfile.ZipFile(folder / f"{name}-{version}-py3-none-any.whl", "w") as wheel:
        wheel.writestr(f"{name}.py", source)
        wheel.writestr(f"{about}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n{needed}")
        wheel.writestr(f"{about}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        wheel.writestr(f"{about}/RECORD", f"{name}.py,,\n{about}/METADATA,,\n{about}/WHEEL,,\n{about}/RECORD,,\n")
