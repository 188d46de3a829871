"""env/HOST.json and its companions, written once per session and machine by the first process there."""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from curator_bench.files import safe_files
from curator_bench.files.codec import json_text
from curator_bench.files.locking import locked
from curator_bench.files.names import safe_name
from curator_bench.provenance.environment import Provenance
from curator_bench.provenance.packages import conda_text, packages_text
from curator_bench.values import Plan

_CAPTURED = "captured:"
_LARGEST_NOTE = 1 << 20


def ensure(plan: Plan, provenance: Provenance | None = None) -> None:
    """Write the files before the first run, so that they exist even if it never ends; again for further subjects."""
    session_dir = Path(plan.session_dir)
    env_dir = session_dir / "env"
    session_dir.mkdir(parents=True, exist_ok=True)
    safe_files.make_folder(env_dir, below=session_dir)
    note_path = env_dir / f".{safe_name(os.uname().nodename)}"
    with locked(note_path, below=session_dir) as note:
        known = _captured(note_path, session_dir)
        if known and not set(plan.subjects) - set(known):
            return
        subjects = sorted({*known, *plan.subjects} - {_CAPTURED})
        facts = provenance or Provenance(Path(plan.working_dir))
        write(facts.environment(subjects), env_dir)
        note.truncate(0)
        note.write(("\n".join([_CAPTURED, *subjects]) + "\n").encode())


def _captured(note_path: Path, session_dir: Path) -> list[str]:
    """Words of the note; empty if a script has spoiled it."""
    try:
        return safe_files.read_text(note_path, below=session_dir, most_bytes=_LARGEST_NOTE).split()
    except (OSError, ValueError):
        return []


def write(facts: Mapping[str, Any], env_dir: Path, environ: Mapping[str, str] | None = None) -> None:
    """Write HOST.json, packages.txt and, inside conda, conda-explicit.txt into the folder."""
    host = safe_name(str(facts["host"]) or "unknown")
    safe_files.write_text(env_dir / f"{host}.json", json_text(facts), below=env_dir.parent)
    _write_list(env_dir, "packages.txt", host, packages_text())
    explicit = conda_text(os.environ if environ is None else environ)
    if explicit is not None:
        _write_list(env_dir, "conda-explicit.txt", host, explicit)


def _write_list(env_dir: Path, name: str, host: str, text: str) -> None:
    """Write a list of packages.

    The session's first machine writes the shared file; a machine that differs writes its own.
    """
    shared = env_dir / name
    before = ""
    with suppress(OSError, ValueError):  # missing, or replaced by a script
        before = safe_files.read_text(shared, below=env_dir.parent)
    file = env_dir / f"{host}.{name}" if before not in ("", text) else shared
    safe_files.write_text(file, text, below=env_dir.parent)
