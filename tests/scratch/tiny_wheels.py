"""Wheels of a package with nothing in it, in a folder that pip and uv can be pointed at instead of an index."""

from __future__ import annotations

import zipfile
from pathlib import Path


def make_wheels(folder: Path, *versions: str, name: str = "tiny") -> Path:
    folder.mkdir(exist_ok=True)
    for version in versions:
        about = f"{name}-{version}.dist-info"
        with zipfile.ZipFile(folder / f"{name}-{version}-py3-none-any.whl", "w") as wheel:
            wheel.writestr(f"{name}.py", f"VERSION = {version!r}\n")
            wheel.writestr(f"{about}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
            wheel.writestr(f"{about}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
            wheel.writestr(f"{about}/RECORD", f"{name}.py,,\n{about}/METADATA,,\n{about}/WHEEL,,\n{about}/RECORD,,\n")
    return folder
