"""Claims: one process runs an entry at a time; a claim whose process is gone is void."""

from __future__ import annotations

import json
import os
import threading
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from curator_bench.errors import BenchError
from curator_bench.execution.claims import CLAIM, Claims, Taken


def another(text: str, **changes: object) -> str:
    return json.dumps({**json.loads(text), **changes})


@pytest.fixture
def claims(tmp_path: Path) -> Claims:
    return Claims(tmp_path, "mine")


def test_a_claim_is_there_until_it_is_released_and_may_be_taken_again(claims: Claims, tmp_path: Path) -> None:
    for _ in range(2):
        claims.take(tmp_path / "entry")
        claims.take(tmp_path / "entry")
        assert (tmp_path / "entry" / CLAIM).exists()
        claims.release(tmp_path / "entry")
        assert os.listdir(tmp_path / "entry") == []


def test_of_many_at_the_same_moment_one_gets_it(tmp_path: Path) -> None:
    won, ready = [], threading.Barrier(8)
    text = _claim_text(tmp_path)

    def take(number: int) -> None:
        own = Claims(tmp_path, str(number))
        ready.wait()
        try:
            own.take(tmp_path / "entry")
            won.append(number)
        except Taken:
            pass

    _put(tmp_path, another(text, process_start=1))  # a void one is there already
    threads = [threading.Thread(target=take, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(won) == 1


def _claim_text(tmp_path: Path) -> str:
    claims = Claims(tmp_path, "template")
    claims.take(tmp_path / "template")
    return (tmp_path / "template" / CLAIM).read_text()


def _put(tmp_path: Path, text: str) -> Path:
    claim = tmp_path / "entry" / CLAIM
    claim.parent.mkdir(exist_ok=True)
    claim.write_text(text)
    return claim


@pytest.mark.parametrize(
    "changes", [{"process_start": 1}, {"boot_id": "earlier", "pid": 1}], ids=["pid_of_another", "before_the_boot"]
)
def test_a_claim_of_a_process_that_is_gone_is_void(claims: Claims, tmp_path: Path, changes: dict[str, object]) -> None:
    _put(tmp_path, another(_claim_text(tmp_path), invocation="other", **changes))
    claims.take(tmp_path / "entry")


def test_a_claim_that_was_cut_off_is_void(claims: Claims, tmp_path: Path) -> None:
    _put(tmp_path, '{"invoc')
    claims.take(tmp_path / "entry")


def test_a_claim_of_another_machine_holds_for_five_minutes_without_a_sign_of_life(
    claims: Claims, tmp_path: Path
) -> None:
    claim = _put(tmp_path, another(_claim_text(tmp_path), invocation="other", host="elsewhere"))
    with pytest.raises(Taken, match="on elsewhere"):
        claims.take(tmp_path / "entry")
    long_ago = claim.stat().st_mtime - 301
    os.utime(claim, (long_ago, long_ago))
    claims.take(tmp_path / "entry")


def test_another_machine_is_silent_until_it_renews_its_claim(claims: Claims, tmp_path: Path) -> None:
    assert claims.silence(tmp_path / "entry") is None
    text = _claim_text(tmp_path)
    _put(tmp_path, another(text, invocation="other", process_start=1))
    assert claims.silence(tmp_path / "entry") is None
    claim = _put(tmp_path, another(text, invocation="other", host="elsewhere"))
    before = claim.stat().st_mtime - 100
    os.utime(claim, (before, before))
    silence = claims.silence(tmp_path / "entry")
    assert silence is not None
    assert silence.left_s == pytest.approx(200, abs=20)
    assert "on elsewhere" in str(silence.by)
    os.utime(claim, (before + 30, before + 30))
    assert claims.silence(tmp_path / "entry") is None


def test_where_files_cannot_be_created_exclusively_a_second_invocation_is_refused(tmp_path: Path) -> None:
    def create_anyway(path: Path, text: str, below: Path) -> None:
        path.write_text(text)

    Claims(tmp_path, "first", create_anyway).take(tmp_path / "a")
    with pytest.raises(BenchError, match="cannot create files exclusively"):
        Claims(tmp_path, "second", create_anyway).take(tmp_path / "b")
    Claims(tmp_path, "first").take(tmp_path / "b")


def test_a_void_claim_is_put_aside_by_one_at_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """While one is about to, another does, and claims it; a third comes when the first has taken away the wrong one."""
    text, won, rename = _claim_text(tmp_path), [], os.replace
    _put(tmp_path, another(text, process_start=1))
    others = [threading.Thread(target=lambda name=name: take(name)) for name in ("second", "third")]

    def take(name: str) -> None:
        with suppress(Taken):
            Claims(tmp_path, name).take(tmp_path / "entry")
            won.append(name)

    def slow_rename(*names: str, **folders: Any) -> None:
        monkeypatch.setattr(os, "replace", rename)
        for other in others:
            other.start()
            other.join(0.5)
            if other is others[0]:
                rename(*names, **folders)

    monkeypatch.setattr(os, "replace", slow_rename)
    take("first")
    for other in others:
        other.join()
    assert len(won) == 1
