"""install.py PYTHON ARGUMENTS: install packages for an interpreter, as `PYTHON -m pip install ARGUMENTS` would.

uv does it where it can be had: it takes seconds where pip takes minutes. It reads nothing of pip's configuration, so
what pip would use (indexes, links, certificates, constraints) is handed on. pip does it where uv fails or is not there.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "src"))
from curator_bench.hunting.pip_settings import find_uv, pip_settings, uv_flags, uv_variables

QUIET_PIP = ("--quiet", "--quiet", "--disable-pip-version-check")


def main() -> int:
    python, arguments = sys.argv[1], sys.argv[2:]
    uv = uv_for(python)
    if uv is not None:
        settings = pip_settings(python)
        command = [uv, "pip", "install", "--quiet", "--python", python, *uv_flags(settings), *arguments]
        if subprocess.run(command, env={**uv_variables(settings), **os.environ}, check=False).returncode == 0:
            return 0
        print("uv could not install it; pip tries", file=sys.stderr)
    return subprocess.run([python, "-m", "pip", "install", *QUIET_PIP, *arguments], check=False).returncode


def uv_for(python: str) -> str | None:
    """Find uv, or let pip install it beside the interpreter."""
    found = find_uv(python)
    if found is None:
        command = [python, "-m", "pip", "install", *QUIET_PIP, "--only-binary=uv", "uv"]
        subprocess.run(command, stderr=subprocess.DEVNULL, check=False)
    return found or find_uv(python)


if __name__ == "__main__":
    sys.exit(main())
