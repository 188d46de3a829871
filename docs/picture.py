"""Draw docs/images/terminal.svg: what pytest prints for README's benchmarks in colour; one misses its limit."""

from __future__ import annotations

import io
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from rich.console import Console
from rich.text import Text

DOCS = Path(__file__).resolve().parent
COLUMNS = 88
TRIES = 20
FILE = re.compile(r"^```(?:yaml|python)\n# ([\w.]+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
FONTS = re.compile(r"@font-face \{.*?\}\s*", re.DOTALL)
COMMAND = ["pytest", "matrix.yaml", "--bench-session", "first", "--no-header", "--color=yes"]


def printed(folder: Path) -> str:
    """Return what a run in this folder prints, with a limit that one of the benchmarks misses."""
    speeds = [float(found) for found in re.findall(r"mb_per_s=([\d.]+)", _run(folder, 50).replace(",", ""))]
    limit = round(sum(speeds) / len(speeds), -2)
    for _ in range(TRIES):
        said = _run(folder, limit)
        if "1 failed" in said and "1 passed" in said:
            return said
    raise SystemExit("this machine is too busy: run it again when it is quiet")


def _run(folder: Path, limit: float) -> str:
    """Run README's benchmarks with this limit. In the output the folder is that of a reader."""
    for name, text in FILE.findall((DOCS.parent / "README.md").read_text("utf-8")):
        (folder / name).write_text(text.replace("min_value: 50}", f"min_value: {limit:.0f}}}"), "utf-8")
    outcome = subprocess.run(
        [sys.executable, "-m", *COMMAND],
        cwd=folder,
        env={**os.environ, "COLUMNS": str(COLUMNS)},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    shutil.rmtree(folder / "results")
    return outcome.stdout.replace(str(folder), "/home/me/benchmarks")


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        said = printed(Path(folder).resolve())
    console = Console(record=True, width=COLUMNS, file=io.StringIO(), force_terminal=True)
    console.print(Text.from_ansi(f"\x1b[1m$ {' '.join(COMMAND[:4])}\x1b[0m\n{said.rstrip()}"))
    picture = console.export_svg(title="pytest matrix.yaml", unique_id="terminal")
    # Readers' machines have a fixed-width font of their own; nothing is loaded from elsewhere.
    picture = FONTS.sub("", picture).replace("Fira Code, monospace", "ui-monospace, Menlo, Consolas, monospace")
    (DOCS / "images").mkdir(exist_ok=True)
    (DOCS / "images" / "terminal.svg").write_text(picture, "utf-8")


if __name__ == "__main__":
    main()
