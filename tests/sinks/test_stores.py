"""W&B offline, Drive with a stand-in for its API, JSON lines in files and in a real S3-compatible store, GitHub."""

from __future__ import annotations

import importlib
import io
import json
import re
import socket
import sqlite3
import struct
import tarfile
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
import warm
from end_to_end.conftest import Project
from sinks.conftest import slowed
from sinks.test_seam import resend, undelivered
from stand_ins.object_store import KEYS, open_store

pytestmark = pytest.mark.slow


def bench(project: Project, *words: str, **variables: str) -> str:
    done = warm.run("curator-bench", *words, cwd=project.folder, env=project.environment(**variables))
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def verdicts(database: Path) -> list[tuple[str, str]]:
    opened = sqlite3.connect(database)
    found = opened.execute("SELECT name, verdict FROM test_run ORDER BY name").fetchall()
    opened.close()
    return found


def test_jobs_add_to_one_file_that_can_be_imported(project: Project) -> None:
    project.matrix(*(project.entry(name) for name in "ab"), sinks=[{"name": "jsonl", "path": "history/all.jsonl"}])
    together = [project.start("--benchmark", "--bench-session", name, "--bench-entries", name) for name in "ab"]
    assert [project.outcome(process).code for process in together] == [0, 0]
    bench(project, "import", "history/all.jsonl", "--db", "other.db")
    assert verdicts(project.folder / "other.db") == [("a", "passed"), ("b", "passed")]
    assert "2 there already" in bench(project, "import", "history/all.jsonl", "--db", "benchmark.db")


def test_history_is_kept_in_a_bucket(project: Project, s3: dict[str, str]) -> None:
    address = s3["AWS_ENDPOINT_URL"]
    store = open_store(s3)
    store.mkdir("bucket")
    options = {"key": "${S3_KEY}", "secret": "${S3_SECRET}", "endpoint_url": address}
    project.matrix(
        *(project.entry(name) for name in "ab"),
        sinks=[{"name": "jsonl", "path": "s3://bucket/history/", "options": options}],
    )
    variables = {"S3_KEY": KEYS["key"], "S3_SECRET": KEYS["secret"]}
    for name in "ab":
        words = ("--benchmark", "--bench-entries", name, "--bench-sink-grace", "200")
        assert project.run(*words, **variables).code == 0
    assert not undelivered(project)
    assert len(store.ls("bucket/history", detail=False)) == 2
    way = {"FSSPEC_S3_KEY": KEYS["key"], "FSSPEC_S3_SECRET": KEYS["secret"], "FSSPEC_S3_ENDPOINT_URL": address}
    said = bench(project, "import", "s3://bucket/history/", "--db", "other.db", **way)
    assert "s3://bucket/history/ (2 files): 2 runs added" in said
    assert verdicts(project.folder / "other.db") == [("a", "passed"), ("b", "passed")]
    said = bench(project, "merge", "s3://bucket/history/", "--into", "benchmark.db", **s3)
    assert "s3://bucket/history/: 0 runs added, 0 completed, 2 there already" in said


def test_github_gets_a_summary_and_annotations(project: Project) -> None:
    bad = project.entry("bad", """--metrics '{"speed": 1}'""", requirements=[{"metric": "speed", "min_value": 5}])
    project.matrix(project.entry("good"), bad, sinks=[{"name": "github"}])
    job = {"GITHUB_SERVER_URL": "https://github.com", "GITHUB_REPOSITORY": "me/mine", "GITHUB_RUN_ID": "7"}
    outcome = project.run("--benchmark", GITHUB_ACTIONS="true", GITHUB_STEP_SUMMARY="summary.md", **job)
    assert outcome.code == 1
    assert "https://github.com/me/mine/actions/runs/7" in bench(project, "show", "s")
    summary = (project.folder / "summary.md").read_text()
    assert "## Benchmarks: 1 passed, 1 failed" in summary
    assert "| bad | ❌ failed |" in summary
    assert outcome.has("::error file=matrix.yaml,title=bad%3A failed::speed is 1, min_value 5")


def test_github_outside_of_actions_is_off_unless_it_is_named(project: Project) -> None:
    away = {"GITHUB_ACTIONS": "", "GITHUB_STEP_SUMMARY": ""}
    project.matrix(project.entry("a"), sinks=[{"name": "github"}])
    outcome = project.run("--collect-only", "--benchmark", **away)
    assert (outcome.code, outcome.has("the sink github needs step_summary")) == (0, True)
    assert project.run("--collect-only", "--bench-sink", "github", **away).code == 4


WANDB_HEADER = 7
BLOCK = 32_768


def wandb_records(path: Path) -> Iterator[Any]:
    """What W&B's own program would upload: LevelDB's log after a header, a message of protobuf in each record."""
    record = importlib.import_module("wandb.proto.wandb_internal_pb2").Record
    content, at, parts = path.read_bytes(), WANDB_HEADER, b""
    while at < len(content):
        if BLOCK - at % BLOCK < 7:
            at += BLOCK - at % BLOCK
            continue
        _, size, kind = struct.unpack_from("<IHB", content, at)
        parts += content[at + 7 : at + 7 + size]
        at += 7 + size
        if kind in (1, 4):  # whole, or the last part
            yield record.FromString(parts)
            parts = b""


def wandb_run(path: Path) -> dict[str, Any]:
    """A run as its records have it."""
    told: dict[str, Any] = {"config": {}, "summary": {}, "files": []}
    for record in wandb_records(path):
        match record.WhichOneof("record_type"):
            case "run":
                told |= {"name": record.run.display_name, "group": record.run.run_group, "project": record.run.project}
                told["config"] |= {one.key: json.loads(one.value_json) for one in record.run.config.update}
            case "summary":
                changed = record.summary.update
                told["summary"] |= {one.key or ".".join(one.nested_key): json.loads(one.value_json) for one in changed}
            case "artifact":
                told["files"] += [entry.path for entry in record.artifact.manifest.contents]
            case "exit":
                told["exit_code"] = record.exit.exit_code
    return told


def test_wandb_works_offline(project: Project) -> None:
    pytest.importorskip("wandb")
    project.matrix(
        project.entry("a", """--metrics '{"docs_per_s": 123.5}'"""),
        project.entry("b", "--exit 2 --say ${LOUD_TOKEN}"),
        sinks=[{"name": "wandb", "mode": "offline", "project": "tried"}],
    )
    (temporary := project.folder / "tmp").mkdir()
    variables = {"LOUD_TOKEN": "planted-in-a-log", "TMPDIR": str(temporary)}
    outcome = project.run("--benchmark", "--bench-sink-grace", "200", **variables)
    assert outcome.code == 1
    assert not undelivered(project), outcome.output
    assert not [*temporary.iterdir()]
    files = sorted((project.session_dir / "wandb").glob("offline-run-*/run-*.wandb"))
    runs = {run["name"]: run for run in map(wandb_run, files)}
    assert {name: (run["summary"]["verdict"], run["exit_code"]) for name, run in runs.items()} == {
        "a": ("passed", 0),
        "b": ("crashed", 1),
    }
    assert runs["a"]["summary"]["docs_per_s"] == 123.5
    assert {(run["project"], run["group"]) for run in runs.values()} == {("tried", "s")}
    config = runs["a"]["config"]
    assert (config["sleep"], config["curator_bench"]["nodeid"]) == (0.0, "matrix.yaml::a")
    assert set(runs["a"]["files"]) == {"results.json", "stdouterr.log"}
    kept = [path.read_bytes() for path in (project.session_dir / "wandb").rglob("*") if path.is_file()]
    assert (b"***\n" in kept, any(b"planted" in content for content in kept)) == (True, False)


def test_wandb_has_one_more_run_with_the_open_finding(project: Project) -> None:
    pytest.importorskip("wandb")
    name = slowed(project, sinks=[{"name": "wandb", "mode": "offline", "project": "tried"}])
    outcome = project.run("--benchmark", "--bench-sink-grace", "200")
    assert (outcome.code, undelivered(project)) == (0, []), outcome.output
    files = (project.session_dir / "wandb").glob("offline-run-*/run-*.wandb")
    runs = {run["name"]: run for run in map(wandb_run, files)}
    assert set(runs) == {"a", "b", "open regressions"}
    (told,) = runs["open regressions"]["config"]["curator_bench"]["open_regressions"]
    assert (told["name"], sorted(told["entries"]), told["metrics"]) == (name, ["a", "b"], ["work_s"])
    assert runs["open regressions"]["summary"]["open_regressions"] == 1


class Drive:
    """Google's token endpoint and resumable uploads; the connection breaks after as many bytes as wanted."""

    def __init__(self) -> None:
        self.content = b""
        self.metadata: dict[str, Any] = {}
        self.breaks_at: list[int] = []
        self.is_done = False
        self.asked_where = 0
        self.refuses = 0


@pytest.fixture
def drive() -> Iterator[tuple[Drive, str]]:  # noqa: C901
    kept = Drive()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            if self.path == "/token":
                self.answer(200, {"access_token": "planted-access", "token_type": "Bearer", "expires_in": 3600})
            elif kept.refuses:
                self.answer(kept.refuses, {"error": {"message": "no", "code": kept.refuses}})
            else:
                kept.metadata = json.loads(body)
                self.answer(200, {}, Location=f"http://{self.headers['Host']}/session/1")

        def do_PUT(self) -> None:
            size = int(self.headers.get("Content-Length") or 0)
            found = re.fullmatch(r"bytes (\d+)-\d+/(\d+|\*)", self.headers["Content-Range"])
            if found is None:
                kept.asked_where += 1
                self.more()
                return
            assert int(found[1]) == len(kept.content)
            if kept.breaks_at and len(kept.content) + size > kept.breaks_at[0]:
                kept.content += self.rfile.read(256 * 1024)
                kept.breaks_at.pop(0)
                self.connection.shutdown(socket.SHUT_RDWR)
                return
            kept.content += self.rfile.read(size)
            if found[2] == str(len(kept.content)):
                kept.is_done = True
                self.answer(200, {"id": "file1", "webViewLink": "https://drive.example/file1"})
            else:
                self.more()

        def more(self) -> None:
            headers = {"Range": f"bytes=0-{len(kept.content) - 1}"} if kept.content else {}
            self.answer(308, None, **headers)

        def answer(self, status: int, document: Any, **headers: str) -> None:
            text = b"" if document is None else json.dumps(document).encode()
            self.send_response(status)
            for name, value in {"Content-Type": "application/json", **headers}.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)

        def log_message(self, *given: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield kept, f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()
    thread.join()


def service_account(project: Project, url: str) -> dict[str, Any]:
    """The sink's block, with an account whose key was made a moment ago."""
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric import rsa

    key = rsa.generate_private_key(public_exponent=65537, key_size=2048).private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    account = {"type": "service_account", "client_email": "bench@example", "token_uri": f"{url}/token"}
    project.write("account.json", json.dumps({**account, "private_key": key.decode()}))
    block = {"name": "gdrive", "drive_folder_id": "F1", "service_account_file": "account.json", "api_url": url}
    return {**block, "chunk_mb": 0.25}


NOISE = "import os; open(os.path.join(os.path.dirname(str(results)), 'noise'), 'wb').write(os.urandom(1_500_000))"


def add_noise(project: Project) -> None:
    source = project.folder.joinpath("script.py").read_text()
    project.write("script.py", source.replace("sys.exit(", f"{NOISE}\nsys.exit("))


def test_the_session_is_uploaded_and_an_interrupted_upload_goes_on(project: Project, drive: tuple[Drive, str]) -> None:
    pytest.importorskip("googleapiclient")
    kept, url = drive
    kept.breaks_at = [600_000]
    add_noise(project)
    project.matrix(project.entry("a"), sinks=[service_account(project, url)])
    outcome = project.run("--benchmark", "--bench-sink-grace", "200")
    assert outcome.code == 0
    assert outcome.has("gdrive: https://drive.example/file1")
    assert (kept.is_done, kept.asked_where) == (True, 1)
    assert kept.metadata["parents"] == ["F1"]
    with tarfile.open(fileobj=io.BytesIO(kept.content)) as archive:
        assert {"s/a/results.json", "s/a/noise", "s/summary.json"} <= set(archive.getnames())
    assert not list((project.session_dir / "sinks").glob("*.tar.gz"))


def test_the_upload_says_which_findings_are_open(project: Project, drive: tuple[Drive, str]) -> None:
    pytest.importorskip("googleapiclient")
    kept, url = drive
    name = slowed(project, sinks=[service_account(project, url)])
    assert project.run("--benchmark", "--bench-sink-grace", "200").code == 0
    (line,) = kept.metadata["description"].splitlines()
    assert line.startswith("open regression: ")
    assert ", with 1 other entry since " in line
    assert line.endswith(f"({name})")


def test_an_upload_that_was_refused_is_made_by_resend(project: Project, drive: tuple[Drive, str]) -> None:
    pytest.importorskip("googleapiclient")
    kept, url = drive
    kept.refuses = 403
    project.matrix(project.entry("a"), sinks=[service_account(project, url)])
    outcome = project.run("--benchmark", "--bench-sink-grace", "200")
    assert outcome.code == 0
    assert outcome.has("Google Drive refuses: 403")
    kept.refuses = 0
    assert resend(project).returncode == 0
    assert kept.is_done
