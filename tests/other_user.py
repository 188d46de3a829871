"""Another user of this machine: a child process that really is one. Only root can start it."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

NOBODY = 65534
needs_a_second_user = pytest.mark.skipif(
    not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root can act as a second user"
)


# The interpreter may stand where only root may go, so it is loaded, with what programs need, before it becomes theirs.
_BECOMES_ANOTHER = """
import contextlib, ctypes, encodings.idna, errno, fcntl, glob, json, os, resource, select, shutil, signal, socket, stat
import subprocess, sys, tempfile, threading, time
user, program = int(sys.argv[1]), sys.argv[2]
sys.argv[1:] = sys.argv[3:]
os.setgroups([])
os.setgid(user)
os.setuid(user)
exec(program)
"""


def start(program: str, *arguments: object, user: int = NOBODY) -> subprocess.Popen[str]:
    """A Python program of theirs, without our environment, groups and working folder."""
    return subprocess.Popen(
        [sys.executable, "-I", "-c", _BECOMES_ANOTHER, str(user), program, *map(str, arguments)],
        cwd="/",
        env={"PATH": os.defpath},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def run(program: str, *arguments: object, user: int = NOBODY) -> str:
    """What the program prints, to its end."""
    with start(program, *arguments, user=user) as process:
        said, _ = process.communicate(timeout=60)
    assert process.returncode == 0, said
    return said


@contextmanager
def shared_folder(mode: int = 0o1777) -> Iterator[Path]:
    """A folder that all users can reach, as /tmp is; pytest's own are closed to them."""
    with tempfile.TemporaryDirectory(prefix="shared-", dir="/tmp") as name:
        Path(name).chmod(mode)
        yield Path(name)
