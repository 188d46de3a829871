"""Whether an invocation of a session is under way, as its folder tells."""

from __future__ import annotations

import json
import os
import socket
import time
from dataclasses import asdict, replace
from pathlib import Path

import pytest

from curator_bench.measure.processes import identify
from curator_bench.provenance.claimants import INVOCATIONS, SILENCE_S, Claimant, is_under_way
from curator_bench.provenance.environment import boot_id


@pytest.fixture
def own() -> Claimant:
    process = identify(os.getpid())
    assert process
    return Claimant("i", socket.gethostname(), boot_id(), process.pid, process.started, "2026-01-01T00:00:00+00:00")


def note(session_dir: Path, claimant: Claimant) -> Path:
    folder = session_dir / INVOCATIONS
    folder.mkdir(exist_ok=True)
    file = folder / "i-1.json"
    file.write_text(json.dumps(asdict(claimant)))
    return file


def test_a_session_is_under_way_while_a_process_of_it_lives(tmp_path: Path, own: Claimant) -> None:
    assert not is_under_way(tmp_path)
    note(tmp_path, own)
    assert is_under_way(tmp_path)
    for other in (
        replace(own, process_start=own.process_start - 1),
        replace(own, boot_id="another"),
        replace(own, pid=2**22 + 1),
    ):
        note(tmp_path, other)
        assert not is_under_way(tmp_path)


def test_of_another_machine_it_is_known_by_its_heartbeat(tmp_path: Path, own: Claimant) -> None:
    file = note(tmp_path, replace(own, host="another"))
    assert is_under_way(tmp_path)
    os.utime(file, (time.time() - SILENCE_S - 60,) * 2)
    assert not is_under_way(tmp_path)


def test_what_is_no_note_is_none(tmp_path: Path, own: Claimant) -> None:
    file = note(tmp_path, own)
    for text in ("", "[]", "{", '{"pid": 1}'):
        file.write_text(text)
        assert not is_under_way(tmp_path)
    file.unlink()
    os.mkfifo(file)
    assert not is_under_way(tmp_path)
    file.unlink()
    (tmp_path / INVOCATIONS).rmdir()
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    note(elsewhere, own)
    (tmp_path / INVOCATIONS).symlink_to(elsewhere / INVOCATIONS)
    assert not is_under_way(tmp_path)
