"""What a run left on disk: its curated entries, whichever side wrote them, as fingerprints that can be compared.

Run as a program it reads the tasks.pkl of NeMo Curator's own script, in a process that ends with what it had to load.
"""

from __future__ import annotations

import hashlib
import json
import pickle
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

Entries = Counter[str]
"""Fingerprints of curated entries, and how often each was written."""


def fingerprint(entry: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(entry, sort_keys=True).encode()).hexdigest()


def entries_in_manifest(folder: Path) -> Entries:
    """Those of the JSONL files in a folder. Equal lines are parsed once."""
    lines: Counter[bytes] = Counter()
    for part in sorted(folder.glob("*.jsonl")):
        with part.open("rb") as file:
            lines.update(file)
    return _sum((fingerprint(json.loads(line)), count) for line, count in lines.items())


def entries_in_tasks(tasks_file: Path) -> Entries:
    """Those NeMo Curator's tasks hold. Loading them needs NeMo Curator, and gigabytes."""
    loaded = subprocess.run([sys.executable, __file__, tasks_file], stdout=subprocess.PIPE, check=True)
    return Counter(json.loads(loaded.stdout))


def _sum(counts: Iterable[tuple[str, int]]) -> Entries:
    total: Entries = Counter()
    for name, count in counts:
        total[name] += count
    return total


if __name__ == "__main__":
    tasks = pickle.loads(Path(sys.argv[1]).read_bytes())
    print(json.dumps(Counter(fingerprint(task.data) for task in tasks)))
