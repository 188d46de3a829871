"""--bench-copy-to: the folders of runs that have ended are copied elsewhere, and what cannot be is told and kept."""

from __future__ import annotations

import json
import os
import signal
import socket
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from end_to_end.conftest import Project
from sinks.conftest import wait_for
from sinks.test_seam import resend, undelivered
from stand_ins.object_store import open_store

from curator_bench.measure.processes import busyness
from curator_bench.sinks.copying import CopyConfig
from curator_bench.sinks.copying_files import FileCopies
from curator_bench.sinks.sink import Context, Refused
from curator_bench.values import RunRecord, Session, Verdict

pytest.importorskip("fsspec")

KEEPS = """
import sys
from pathlib import Path

own = Path(sys.argv[sys.argv.index("--benchmark-results-path") + 1])
own.joinpath("metrics.json").write_text('{"is_success": true}')
top = own.parent
top.joinpath("artifacts", "model.bin").write_bytes(b"weights")
top.joinpath("artifacts", "newest").symlink_to("model.bin")
top.joinpath("artifacts", "private").symlink_to(sys.argv[1])
top.joinpath("artifacts", "all").symlink_to(Path(sys.argv[1]).parent)
top.joinpath("scratch", "large").write_text("left here")
"""


def tree(top: Path) -> set[str]:
    return {path.relative_to(top).as_posix() for path in top.rglob("*") if path.is_file()}


def test_a_run_that_has_ended_is_copied_while_others_go_on(project: Project) -> None:
    project.matrix(project.entry("a"), project.entry("b", "--sleep 60"))
    process = project.start("--bench-copy-to", "copies")
    wait_for((project.folder / "copies" / "s" / "a" / "results.json").exists)
    assert process.poll() is None
    process.send_signal(signal.SIGINT)
    outcome = project.outcome(process)
    assert outcome.code == 2
    copied = project.folder / "copies" / "s"
    assert json.loads((copied / "b" / "results.json").read_text())["verdict"] == "interrupted"
    assert {"summary.json", "progress.json", "session.json", "env/packages.txt"} <= tree(copied)
    assert (copied / "summary.json").read_bytes() == (project.session_dir / "summary.json").read_bytes()
    assert outcome.has(f"copy: {copied}")
    assert not undelivered(project)


def test_what_a_run_keeps_is_copied_and_nothing_that_is_not_its_own(project: Project) -> None:
    project.write("keeps.py", KEEPS)
    secret = project.write("secret", "mine")
    entry = {"name": "a", "script": "keeps.py", "args": str(secret), "delete_scratch": False}
    project.matrix(entry, artifacts_dir=str(project.folder / "large"))
    url = (project.folder / "copies").as_uri()
    outcome = project.run("--bench-copy-to", url, "--bench-sink", "none")
    assert outcome.code == 0
    copied = tree(project.folder / "copies" / "s")
    run = {name.removeprefix("a/") for name in copied if name.startswith("a/")}
    assert run == {
        *("command.txt", "status.json", "results.json", "results.jsonl", "logs/stdouterr.log", "memory.csv"),
        *("benchmark_results/metrics.json", "artifacts/model.bin", "artifacts/newest"),
    }
    assert not [name for name in copied if name.startswith(("undelivered", ".inv", "sinks"))]


def test_what_cannot_be_copied_is_told_once_and_copied_later(project: Project, s3: dict[str, str]) -> None:
    project.matrix(project.entry("a"), project.entry("b"), sinks=[{"name": "copy", "options": {"anon": False}}])
    outcome = project.run("--bench-copy-to", "s3://bucket/x", **s3)
    assert outcome.code == 0
    told = [line for line in outcome.lines if "sink copy" in line]
    assert len(told) == 1
    assert "3 of 3 messages not delivered (FileNotFoundError: The specified bucket does not exist)" in told[0]
    assert "`curator-bench resend" in told[0]
    store = open_store(s3)
    store.mkdir("bucket")
    again = resend(project, **s3)
    assert again.returncode == 0, again.stdout
    assert "copy: s3://bucket/x/s" in again.stdout
    copied = {name.removeprefix("bucket/x/s/") for name in store.find("bucket")}
    assert {"a/results.json", "b/logs/stdouterr.log", "summary.json"} <= copied
    assert json.loads(store.cat_file("bucket/x/s/a/results.json"))["name"] == "a"
    assert not undelivered(project)
    everything = b"".join(path.read_bytes() for path in project.session_dir.rglob("*") if path.is_file())
    assert b"planted-secret" not in everything


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("abfs://container/x", "--bench-copy-to abfs://container/x needs adlfs for abfs://: pip install adlfs"),
        (
            "s4://bucket",
            "--bench-copy-to s4://bucket needs a folder, or a URL that fsspec knows; it does not know s4://",
        ),
        ("results", "it is the folder of the session"),
    ],
)
def test_a_place_that_cannot_be_copied_to_is_told_at_the_start(project: Project, url: str, said: str) -> None:
    project.matrix(project.entry("a"))
    outcome = project.run("--bench-copy-to", url)
    assert outcome.code == 4
    assert outcome.has(said)
    assert not project.session_dir.exists()


def test_ctrl_c_at_the_end_leaves_a_copy_that_does_not_come_about(project: Project, s3: dict[str, str]) -> None:
    project.matrix(project.entry("a"))
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = "http://{}:{}".format(*silent.getsockname())
        process = project.start(
            "--bench-copy-to", "s3://bucket/x", background=False, **{**s3, "AWS_ENDPOINT_URL": address}
        )
        assert process.stdout is not None
        lines = iter(process.stdout.readline, "")
        assert any("Waiting for sinks: copy (2 messages left). Ctrl-C leaves" in line for line in lines)
        began = time.monotonic()
        process.send_signal(signal.SIGINT)
        rest = project.outcome(process)
    assert time.monotonic() - began < 20 * busyness()
    assert rest.code == 2
    assert "sink copy: 2 of 2 messages not delivered" in rest.output
    wait_for(lambda: not project.processes())


def _copies(tmp_path: Path) -> tuple[FileCopies, RunRecord]:
    session_dir = tmp_path / "results" / "s"
    (session_dir / "a").mkdir(parents=True)
    context = Context("copy", session_dir, tmp_path, link=lambda *_: None, say=lambda _: None)
    sink = FileCopies(CopyConfig(to="copies"), context)
    sink.start_session(Session("s", str(session_dir)))
    stamp = "2026-01-23T14:30:00+00:00"
    return sink, RunRecord(
        name="a", nodeid="m::a", verdict=Verdict.PASSED, ended_at=stamp, directory=str(session_dir / "a")
    )


def test_a_file_that_cannot_be_read_keeps_no_other_from_being_copied(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sink, result = _copies(tmp_path)
    for name in ("a.txt", "locked", "results.json"):
        Path(result.directory, name).write_text(name)
    opened = Path.open

    def guarded(path: Path, *args: Any, **kwargs: Any) -> Any:
        if path.name == "locked":
            raise PermissionError(13, "Permission denied", str(path))
        return opened(path, *args, **kwargs)

    monkeypatch.setattr(Path, "open", guarded)
    with pytest.raises(Refused, match=r"cannot be read: .*/locked: Permission denied"):
        sink.run_finished(result)
    assert tree(tmp_path / "copies" / "s") == {"a/a.txt", "a/results.json"}


def test_only_what_has_changed_is_copied_again(tmp_path: Path) -> None:
    sink, result = _copies(tmp_path)
    for name in ("kept", "changed"):
        Path(result.directory, name).write_text(name)
    sink.run_finished(result)
    copied = tmp_path / "copies" / "s" / "a"
    for name in ("kept", "changed"):
        (copied / name).write_text("not ours")
    Path(result.directory, "changed").write_text("changed again")
    sink.run_finished(replace(result, attempt=2))
    assert (copied / "kept").read_text() == "not ours"
    assert (copied / "changed").read_text() == "changed again"


def test_the_session_is_never_copied_into_itself(tmp_path: Path) -> None:
    session_dir = tmp_path / "results" / "s"
    session_dir.mkdir(parents=True)
    (tmp_path / "elsewhere").symlink_to(tmp_path / "results")
    assert CopyConfig(to="elsewhere").is_within(session_dir, tmp_path)
    assert CopyConfig(to=f"file://{session_dir}").is_within(session_dir, tmp_path)
    assert not CopyConfig(to=os.fspath(tmp_path)).is_within(session_dir, tmp_path)
    assert not CopyConfig(to="s3://results").is_within(session_dir, tmp_path)
