"""Locks hold between processes, and are given up with their holder."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from curator_bench.files.locking import locked

HOLDS = """
import sys, time
from pathlib import Path
from curator_bench.files.locking import locked
with locked(Path(sys.argv[1])):
    print("held", flush=True)
    time.sleep(60)
"""


def test_a_lock_keeps_others_out_until_its_holder_is_killed(tmp_path: Path) -> None:
    lock = tmp_path / "lock"
    with subprocess.Popen([sys.executable, "-c", HOLDS, str(lock)], stdout=subprocess.PIPE) as holder:
        assert holder.stdout
        assert holder.stdout.readline() == b"held\n"
        with pytest.raises(BlockingIOError), locked(lock, wait=False):
            pytest.fail("two hold the lock")
        holder.kill()
    with locked(lock, wait=False):
        pass
    with locked(lock):
        pass
