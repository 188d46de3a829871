"""Names of frames: `module:function`, and `library.so:function` for native code, without what differs from run to run.

It is also run in the interpreter of a script, by path: standard library only, and nothing of ours.
"""

from __future__ import annotations

import os
import re

_LIBRARY = re.compile(r"^(.+?\.(?:so|dylib|pyd|dll))(?:\.[0-9.]+)?$")
_BUILD = re.compile(r"-[0-9a-f]{8}(?=[.-])|\.(?:cpython|pypy|abi)[A-Za-z0-9_-]*(?=\.)")
"""Parts of the names of libraries that differ between builds of one version."""
_ADDRESS = re.compile(r"^0x[0-9a-f]+$")
_PYTHON = (".py", ".pyc", ".pyw", ".pyx", ".ipynb")


def frame_of(function: str, file: str) -> str:
    """Return the name of a frame. `file` is relative to what it is imported from, or the path of a library."""
    if is_python(file):
        return f"{module_of(file)}:{function}"
    library = library_of(file)
    return library if _ADDRESS.match(function) or not function else f"{library}:{function}"


def is_python(file: str) -> bool:
    """True for a file of Python code, `<frozen importlib>` and `<string>`."""
    return file.endswith(_PYTHON) or file.startswith("<")


def module_of(file: str) -> str:
    """Return the module of a file: `pkg/sub/__init__.py` is `pkg.sub`, `<frozen os>` is `os`."""
    if file.startswith("<"):
        return file[8:-1] if file.startswith("<frozen ") and file.endswith(">") else file
    parts = os.path.splitext(file)[0].replace("\\", "/").strip("/").split("/")
    if parts[-1] == "__init__" and len(parts) > 1:
        parts.pop()
    return ".".join(parts)


def library_of(path: str) -> str:
    """Return the name of a library or of a source file of native code, without its version."""
    name = os.path.basename(path) or "?"
    found = _LIBRARY.match(name)
    return _BUILD.sub("", found.group(1) if found else name)


def short_path(path: str) -> str:
    """Return the path of a file from the top of its package on; just its name if it is in none."""
    if path.startswith("<"):
        return path
    folder, name = os.path.split(path)
    while folder not in ("", os.sep) and os.path.exists(os.path.join(folder, "__init__.py")):
        folder, package = os.path.split(folder)
        name = package + "/" + name
    return name
