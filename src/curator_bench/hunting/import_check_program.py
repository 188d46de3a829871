"""Notes modules that a process of one side has imported from the files of another. It is copied into a side's venv.

A `.pth` file imports it whenever Python starts there. It is a no-op unless its variable is set, and it needs nothing
but the standard library, of any Python.
"""

import atexit
import os
import sys

VARIABLE = "CURATOR_BENCH_IMPORT_CHECK"
"""Paths, separated by `os.pathsep`: the file of notes, the side's own folder, then the folders that are wrong."""


def _note_wrong_modules(notes: str, own: str, *wrong: str) -> None:
    found = set()
    for name, module in list(sys.modules.items()):
        file = getattr(module, "__file__", None)
        if not isinstance(file, str):
            continue
        file = os.path.realpath(file)
        if _is_below(file, own) or "site-packages" in file or "dist-packages" in file:
            continue
        if any(_is_below(file, folder) for folder in wrong):
            found.add(f"{name.partition('.')[0]}\t{file}\n")
    if found:
        with open(notes, "a", encoding="utf-8") as output:
            output.writelines(sorted(found)[:20])


def _is_below(file: str, folder: str) -> bool:
    return file.startswith(folder.rstrip(os.sep) + os.sep)


if VARIABLE in os.environ:
    atexit.register(_note_wrong_modules, *os.environ[VARIABLE].split(os.pathsep))
