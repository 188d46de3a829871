"""A git repository as a user has one: a package, its benchmark, 32 commits, and one of them may have made it slower.

Time is that of a clock in the package, with noise from a seed: the hunt is tested, not how quiet the machine is.
"""

from __future__ import annotations

import os
import subprocess
from dataclasses import dataclass
from pathlib import Path

from plugins_of_others import WITHOUT_OTHERS

COMMITS = 32
WORK = '''"""The package: its function takes 50 ms, as its clock has it."""

# change {number}


def work():
    return {seconds!r}
'''
SCRIPT = """import json
import random
import sys
from pathlib import Path

root = Path(__file__).parents[1]
sys.path.insert(0, str(root))
from package import work

noise = root / "noise"
drawn = int((noise / "drawn").read_text())
(noise / "drawn").write_text(str(drawn + 1))
chance = random.Random(f"{(noise / 'seed').read_text()} {drawn}")
results = Path(sys.argv[sys.argv.index("--benchmark-results-path") + 1])
(results / "params.json").write_text("{}")
(results / "metrics.json").write_text(json.dumps({"work_time_s": work() * chance.gauss(1.0, 0.02), "level": 1}))
"""
MATRIX = """# matrix.yaml
ray: false
entries:
  - {name: work, script: work.py}
"""


def environment(**more: str) -> dict[str, str]:
    """Return the environment of a user who has set nothing, except that disturbed runs count.

    Else what runs beside a test would decide its outcome.
    """
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PYTEST_", "CURATOR_BENCH_"))}
    return {**kept, "CURATOR_BENCH_DISTURBED": "count", **more}


@dataclass(frozen=True)
class ScratchRepository:
    folder: Path

    def git(self, *words: str) -> str:
        named = ("-c", "user.name=A", "-c", "user.email=a@example.org", "-c", "init.defaultBranch=main")
        kept = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
        done = subprocess.run(
            ["git", "-C", str(self.folder), *named, *words], env=kept, capture_output=True, text=True, check=True
        )
        return done.stdout.strip()

    def commit(self, number: int, seconds: float) -> str:
        (self.folder / "package.py").write_text(WORK.format(number=number, seconds=seconds))
        self.git("add", "--all")
        self.git("commit", "--quiet", "--message", f"Change {number}")
        return self.git("rev-parse", "HEAD")

    def stands(self) -> tuple[str, str, str]:
        """Branch, commit, and what git says of the working tree."""
        return (
            self.git("branch", "--show-current"),
            self.git("rev-parse", "HEAD"),
            self.git("status", "--porcelain", "--branch", "--ignored=no"),
        )


def make_repository(
    folder: Path, *, seed: int, slower_at: int | None = 19, by: float = 0.08, commits: int = COMMITS, ini: bool = True
) -> ScratchRepository:
    """Commits are numbered from 1; their tags are c1, c2, …"""
    repository = ScratchRepository(folder)
    (folder / "benchmarks").mkdir(parents=True)
    (folder / "noise").mkdir()
    (folder / "noise" / "seed").write_text(str(seed))
    (folder / "noise" / "drawn").write_text("0")
    (folder / "benchmarks" / "work.py").write_text(SCRIPT)
    (folder / "benchmarks" / "matrix.yaml").write_text(MATRIX)
    if ini:
        (folder / "pytest.ini").write_text(f"[pytest]\naddopts = {' '.join(WITHOUT_OTHERS)}\n")
    (folder / ".gitignore").write_text("noise/\nresults/\nbenchmark.db*\n__pycache__/\n")
    repository.git("init", "--quiet")
    for number in range(1, commits + 1):
        is_slower = slower_at is not None and number >= slower_at
        repository.commit(number, 0.05 * (1 + by) if is_slower else 0.05)
        repository.git("tag", f"c{number}")
    return repository
