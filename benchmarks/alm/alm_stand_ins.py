"""Empty stand-ins for two libraries NeMo Curator's audio package imports and ALM does not use.

torchaudio has no build for some machines without a GPU. `PYTHONPATH=$(python alm_stand_ins.py FOLDER)` then lets the
package be imported, by the script and by the workers of a cluster that is started with it.
"""

from __future__ import annotations

import sys
from importlib.machinery import PathFinder
from pathlib import Path

FILES = {"soundfile": ("soundfile.py",), "torchaudio": ("torchaudio/__init__.py", "torchaudio/functional.py")}


def make_stand_ins(folder: Path) -> list[str]:
    """Empty modules in the folder for those of the libraries that are missing here, and the names of these.

    What counts is what can be found, not what this process has imported: that may be a stand-in.
    """
    missing = [name for name in FILES if PathFinder.find_spec(name) is None]
    for file in (folder / path for name in missing for path in FILES[name]):
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text('"""An empty stand-in."""\n')
    return missing


if __name__ == "__main__":
    for library in make_stand_ins(Path(sys.argv[1])):
        print(f"{library} is not installed: an empty stand-in is used", file=sys.stderr)
    print(Path(sys.argv[1]).absolute())
