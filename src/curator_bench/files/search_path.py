"""PATH with the programs of an interpreter's packages, which are beside it also where its environment is not active."""

from __future__ import annotations

import os


def path_with(path: str | None, python: str) -> str:
    """Return a PATH (default: ours) that ends with the folder of an interpreter, if that is named with one."""
    said = os.environ.get("PATH", os.defpath) if path is None else path
    beside = os.path.dirname(python)
    return said if not beside or beside in said.split(os.pathsep) else os.pathsep.join(filter(None, [said, beside]))
