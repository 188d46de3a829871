"""Projects with sinks, a real MLflow server, and a stand-in for Slack that knows Slack's documented limits."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from end_to_end.conftest import Project

from curator_bench.causes.judged_history import Query, judge_history
from curator_bench.importing.found_runs import FoundRun
from curator_bench.importing.importer import Importer
from curator_bench.matrix import LoadRequest, definition_hash, load
from curator_bench.measure.processes import busyness
from curator_bench.provenance.environment import machine_id
from curator_bench.store.database import database_url, open_for_writing
from curator_bench.store.records import RunEnd, RunStart, SessionRecord, StoredRun
from curator_bench.values import Place, Verdict

RECORDING_SINK = """
    import json, os, threading, time
    from curator_bench.sinks import Sink, SinkConfig

    class Config(SinkConfig):
        file: str = "told.jsonl"
        fail: int = 0
        sleep: float = 0.0
        hang_on: str = ""
        exit_on: str = ""

    class Recording(Sink[Config]):
        config_model = Config
        failed = 0

        def start_session(self, session): self.put("start_session", session.name)
        def run_started(self, run): self.put("run_started", run.name)
        def run_finished(self, result): self.put("run_finished", result.title, str(result.verdict))
        def end_session(self, summary): self.put("end_session", dict(summary.counts))

        def put(self, *said):
            time.sleep(self.config.sleep)
            if self.config.exit_on == said[0]:
                raise SystemExit("no more \x1b[31m")
            if self.config.hang_on == said[0]:
                time.sleep(1000)
            if self.failed < self.config.fail:
                self.failed += 1
                raise ConnectionError("the server is down")
            with open(self.config.file, "a") as file:
                print(json.dumps([os.getpid(), threading.current_thread().name, *said]), file=file)
"""


@pytest.fixture
def project(tmp_path: Path) -> Project:
    made = Project(tmp_path)
    made.write("my_sink.py", RECORDING_SINK)
    return made


FAILS_ONCE = """
    import sys
    from pathlib import Path

    tried, corpus = Path("tried"), Path("corpus")
    if not tried.exists():
        tried.touch()
        sys.exit("no room")
    corpus.touch()
"""


def tried_twice(project: Project, *entries: dict[str, Any], args: str = "", **keys: Any) -> None:
    """A matrix with the entry `again`, whose dataset cannot be made at first: an `error`, then another attempt."""
    project.write("make.py", FAILS_ONCE)
    made = {"script": "make.py", "args": ""}
    corpus = {"name": "corpus", "formats": [{"type": "jsonl", "path": "corpus"}], "generate": made}
    again = project.entry("again", f"--say {{dataset:corpus,jsonl}} {args}", retries=1)
    project.matrix(again, *entries, datasets=[corpus], **keys)


def slowed(project: Project, measured_s: float = 1.3, **keys: Any) -> str:
    """A matrix of two entries that one commit made slower some time ago; their gates are used to it by now.

    Returns the name of the finding.
    """
    gate = {"metric": "work_s", "max_regression": "10%"}
    metrics = json.dumps({"work_s": measured_s})
    entries = [project.entry(name, f"--metrics '{metrics}'", requirements=[gate]) for name in ("a", "b")]
    project.matrix(*entries, **keys)
    file = project.folder / "matrix.yaml"
    loaded = load(LoadRequest(files=(file,), working_dir=project.folder)).entries
    now, noise, found = datetime.now(UTC), np.random.default_rng(7), []
    for night, level in enumerate([1.0] * 30 + [1.3] * 12):
        session = SessionRecord(f"night_{night}", "r", uuid.uuid4().hex, commit=f"{night:040x}", branch="main")
        for entry in loaded:
            about: dict[str, Any] = {"machine_id": machine_id(), "definition_hash": definition_hash(entry)}
            start = RunStart(entry.name, "matrix.yaml", now - timedelta(days=42 - night), **about)
            end = RunEnd(Verdict.PASSED, start.start, metrics={"work_s": level * (1 + 0.01 * noise.standard_normal())})
            found.append(FoundRun(StoredRun(session, None, start, end), Place("", 0)))
    with open_for_writing(database_url(str(project.folder / "benchmark.db"))) as database:
        Importer(database).add(found)
        with database.reading() as connection:
            (finding,) = judge_history(connection, Query()).findings
    return finding.name


def told(project: Project, file: str = "told.jsonl") -> list[list[Any]]:
    """What the recording sink was told."""
    path = project.folder / file
    return [json.loads(line)[2:] for line in path.read_text().splitlines()] if path.exists() else []


@contextmanager
def held_port() -> Iterator[int]:
    """A port of loopback that nobody else is given meanwhile. Nothing answers there until somebody listens."""
    with socket.socket() as held:
        held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # a server that says so, too, may listen
        held.bind(("127.0.0.1", 0))
        yield int(held.getsockname()[1])


class MlflowServer:
    """`mlflow server` with SQLite behind it, on loopback."""

    def __init__(self, folder: Path, port: int) -> None:
        self.folder = folder
        self.port = port
        self.url = f"http://127.0.0.1:{self.port}"
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        command = [sys.executable, "-m", "mlflow", "server", "--backend-store-uri", "sqlite:///mlflow.db"]
        command += ["--artifacts-destination", "artifacts", "--host", "127.0.0.1", "--port", str(self.port)]
        # Its jobs are eight processes that import all of MLflow.
        environment = {**os.environ, "MLFLOW_DISABLE_TELEMETRY": "true", "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false"}
        with (self.folder / "server.log").open("ab") as log:
            self._process = subprocess.Popen(
                [*command, "--workers", "1"],
                cwd=self.folder,
                env=environment,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        wait_for(lambda: is_up(f"{self.url}/health"), 180)

    def kill(self) -> None:
        if self._process is not None:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
            self._process = None


def is_up(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=5) as answer:
            return bool(answer.status == 200)
    except OSError:
        return False


def wait_for(holds: Callable[[], object], seconds: float = 60) -> None:
    """Waits until it holds, so many times longer as the machine is busy."""
    deadline = time.monotonic() + seconds * busyness()
    while not holds():
        assert time.monotonic() < deadline, "this did not come to be"
        time.sleep(0.05)


@pytest.fixture(scope="module")
def mlflow_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MlflowServer]:
    pytest.importorskip("mlflow")
    with held_port() as port:
        server = MlflowServer(tmp_path_factory.mktemp("mlflow"), port)
        server.start()
        yield server
        server.kill()


@dataclass
class Slack:
    """What Slack was sent, and what it answers. A payload Slack would not take is a problem, and refused."""

    url: str
    calls: list[tuple[str, dict[str, Any]]] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    answers: list[tuple[int, dict[str, str], Any]] = field(default_factory=list)
    """To be given before the normal ones."""
    silent_s: float = 0.0
    silent_calls: int = 10_000
    """How many calls of the next ones are answered that late."""
    fails_once: list[str] = field(default_factory=list)
    """A message whose text has one of these is answered with an error, once."""
    at_once: int = 0
    most_at_once: int = 0
    tokens: set[str] = field(default_factory=set)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def of(self, method: str) -> list[dict[str, Any]]:
        return [payload for name, payload in self.calls if name == method]

    @property
    def parents(self) -> list[dict[str, Any]]:
        return [payload for payload in self.of("chat.postMessage") if "thread_ts" not in payload]

    @property
    def replies(self) -> list[dict[str, Any]]:
        return [payload for payload in self.of("chat.postMessage") if "thread_ts" in payload]

    def answer(self, method: str, payload: dict[str, Any]) -> tuple[int, dict[str, str], Any]:
        with self.lock:
            self.at_once += 1
            self.most_at_once = max(self.most_at_once, self.at_once)
            self.silent_calls -= 1
            is_silent = self.silent_calls >= 0
        time.sleep(self.silent_s if is_silent else 0.0)
        with self.lock:
            self.at_once -= 1
            return self._answer(method, payload)

    def _answer(self, method: str, payload: dict[str, Any]) -> tuple[int, dict[str, str], Any]:
        if self.answers:
            return self.answers.pop(0)
        if fails := [text for text in self.fails_once if text in payload["text"]]:
            self.fails_once.remove(fails[0])
            return 500, {}, "oh"
        self.calls.append((method, payload))
        if found := list(wrong_with(payload)):
            self.problems += found
            return 200, {}, {"ok": False, "error": "invalid_blocks"}
        if method == "hook":
            return 200, {}, "ok"
        ts = payload.get("ts") or f"1700000000.{len(self.calls):06d}"
        return 200, {}, {"ok": True, "channel": payload["channel"], "ts": ts}


def wrong_with(payload: dict[str, Any]) -> Iterator[str]:
    """By Slack's documented limits of messages and blocks."""
    blocks = payload.get("blocks") or []
    if not payload.get("text"):
        yield "no fallback text"
    if len(payload.get("text", "")) > 40_000:
        yield "text is longer than 40,000 characters"
    if len(blocks) > 50:
        yield f"{len(blocks)} blocks"
    for block in blocks:
        texts = block.get("elements") or [block["text"]]
        longest, most = (150, 1) if block["type"] == "header" else (3000, 1)
        most = 10 if block["type"] == "context" else most
        if len(texts) > most:
            yield f"{len(texts)} elements in a {block['type']}"
        for text in texts:
            if not 1 <= len(text["text"]) <= longest:
                yield f"a {block['type']} of {len(text['text'])} characters"


@pytest.fixture
def slack() -> Iterator[Slack]:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"])).decode()
            method = self.path.rpartition("/")[2] if self.path.startswith("/api/") else "hook"
            stand_in.tokens.add(self.headers.get("Authorization", ""))
            status, headers, answer = stand_in.answer(method, json.loads(body))
            text = (answer if isinstance(answer, str) else json.dumps(answer)).encode()
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, value)
            self.send_header("Content-Type", "text/plain" if isinstance(answer, str) else "application/json")
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)

        def log_message(self, *given: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    stand_in = Slack(f"http://127.0.0.1:{server.server_port}")
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield stand_in
    server.shutdown()
    server.server_close()
    thread.join()


@pytest.fixture
def new_port() -> Iterator[Callable[[], int]]:
    """Of loopback; nobody listens there."""
    with ExitStack() as held:
        yield lambda: held.enter_context(held_port())
