"""A large matrix, and the pytest process that collects it."""

from __future__ import annotations

import sys
from pathlib import Path

from pytest_process import Took, run_pytest, with_plugin

HEAD = """\
paths:
  - {name: datasets_path, host_path: ./data}
entries:
"""
ENTRY = """\
  - name: entry_%(number)d
    script: benchmark.py
    args: >-
      --input-path {datasets_path}/part_%(number)d --output-path {session_entry_dir}/scratch/out
      --executor ray_data --files-per-partition %(number)d
    timeout_s: 1800
    ray:
      num_cpus: 4
      num_gpus: 0
      enable_object_spilling: false
    requirements:
      - metric: throughput_docs_per_sec
        min_value: %(number)d
"""


def write_matrix(file: Path, entries: int) -> None:
    """Entries with two placeholders in their arguments, a ray block and one requirement each; made on first use."""
    if file.exists():
        return
    with file.open("w") as text:
        text.write(HEAD)
        text.writelines(ENTRY % {"number": number} for number in range(entries))


def collect(file: Path, expected: int) -> Took:
    """`pytest --collect-only -q` of the matrix; ends this program unless it finds every entry."""
    took = run_pytest(["--collect-only", "-q", *with_plugin(), file.name], file.parent)
    found = took.output.count("::")
    if found != expected:
        sys.exit(f"collected {found} of {expected} entries:\n{took.output[-2000:]}")
    return took
