"""Detection of file systems that are reached over a network."""

from __future__ import annotations

import os
from pathlib import Path

_NETWORK = {
    *("9p", "afs", "beegfs", "ceph", "cifs", "coda", "gfs2", "glusterfs", "gpfs", "lustre", "nfs", "nfs4", "ocfs2"),
    *("smb3", "smbfs", "wekafs"),
    *("fuse.ceph-fuse", "fuse.gcsfuse", "fuse.glusterfs", "fuse.goofys", "fuse.juicefs", "fuse.s3fs", "fuse.sshfs"),
}
_MOUNTS = Path("/proc/self/mounts")
_ESCAPES = {r"\040": " ", r"\011": "\t", r"\012": "\n", r"\134": "\\"}


def is_on_network(path: Path, mounts: Path = _MOUNTS) -> bool:
    """True if other machines may have the file open too. False where there is no list of mounts (macOS)."""
    return file_system_of(path, mounts) in _NETWORK


def file_system_of(path: Path, mounts: Path = _MOUNTS) -> str:
    """Type of the file system at the path, from the last mount at its longest mounted parent; "" if unknown."""
    try:
        lines = mounts.read_text(encoding="utf-8", errors="surrogateescape").splitlines()
    except OSError:
        return ""
    real = Path(os.path.realpath(path))
    found, depth = "", 0
    for _, folder, kind, *_ in (line.split(" ") for line in lines if line.count(" ") >= 3):
        parts = Path(_unescaped(folder)).parts
        if len(parts) >= depth and real.parts[: len(parts)] == parts:
            found, depth = kind, len(parts)
    return found


def _unescaped(folder: str) -> str:
    for escape, letter in _ESCAPES.items():
        folder = folder.replace(escape, letter)
    return folder
