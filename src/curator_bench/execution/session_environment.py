"""env/HOST.json and its companions, written once per session and machine by the first process there."""

from __future__ import annotations

import os
from pathlib import Path

from curator_bench.files import safe_files
from curator_bench.files.locking import locked
from curator_bench.files.names import safe_name
from curator_bench.provenance.environment import Provenance, write
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
