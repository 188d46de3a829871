"""How much longer a session takes because it reports to MLflow and Slack.

Stand-ins for both servers answer as slowly as they are told to, or refuse connections. Sessions with and without sinks
take turns; what counts is the median of the pairs: `ratio` of the time until the runs have ended and sinks are waited
for, `ratio_in_all` of pytest from start to end, `waited_s` in between.
"""

from __future__ import annotations

import json
import socket
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from statistics import median
from typing import Any

from pytest_process import make_project, parser_with, run_pytest, with_plugin, write_results
from small_entries import EMPTY_SCRIPT, write_script

SLEEPING = "import time\ntime.sleep(0.2)\n" + EMPTY_SCRIPT
LISTENER = """\
import pathlib
import time

import pytest

BEGAN = time.monotonic()


class Clock:
    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtestloop(self):
        result = yield
        pathlib.Path("loop_s").write_text(str(time.monotonic() - BEGAN))
        return result


def pytest_configure(config):
    config.pluginmanager.register(Clock())
"""


class StandIn(ThreadingHTTPServer):
    """Answers as MLflow or Slack would, after a while."""

    daemon_threads = True

    def __init__(self, after_s: float) -> None:
        super().__init__(("127.0.0.1", 0), Answering)
        self.after_s = after_s
        self.count = 0
        threading.Thread(target=self.serve_forever, daemon=True).start()


class Answering(BaseHTTPRequestHandler):
    server: StandIn

    def do_GET(self) -> None:
        self._answer()

    do_POST = do_PUT = do_PATCH = do_GET  # noqa: N815

    def _answer(self) -> None:
        self.rfile.read(int(self.headers.get("Content-Length") or 0))
        self.server.count += 1
        time.sleep(self.server.after_s)
        run = {"info": {"run_id": f"{self.server.count:032x}", "experiment_id": "1", "status": "RUNNING"}, "data": {}}
        run["info"]["artifact_uri"] = f"mlflow-artifacts:/1/{self.server.count}"
        experiment = {"experiment_id": "1", "name": "x", "lifecycle_stage": "active", "artifact_location": "a"}
        answer = {
            "ok": True,
            "channel": "C",
            "ts": "1.1",
            "run": run,
            "run_info": run["info"],
            "experiment": experiment,
        }
        text = json.dumps(answer).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def log_message(self, *given: Any) -> None:
        pass


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def write_matrix(project: Path, entries: int, mlflow: int, slack: int) -> Path:
    sinks = [
        {"name": "mlflow", "tracking_uri": f"http://127.0.0.1:{mlflow}", "artifacts": False},
        {"name": "slack", "bot_token": "x", "channel_id": "C", "api_url": f"http://127.0.0.1:{slack}/api/"},
    ]
    named = [{"name": f"entry_{number}", "script": "work.py"} for number in range(entries)]
    path = project / "sinks.yaml"
    path.write_text(json.dumps({"ray": False, "sinks": sinks, "entries": named}))
    return path


def session_s(matrix: Path, *options: str) -> tuple[float, float, str]:
    """Until the runs had ended, in all, and what was printed."""
    took = run_pytest(["-q", *with_plugin(), matrix.name, "--benchmark", *options], matrix.parent)
    return float((matrix.parent / "loop_s").read_text()), took.wall_s, took.output


def main() -> None:
    parser = parser_with(__doc__)
    parser.add_argument("--servers", choices=["slow", "refusing"], required=True)
    parser.add_argument("--entries", type=int, required=True)
    parser.add_argument("--rounds", type=int, required=True)
    options = parser.parse_args()
    project = make_project(options.scratch.resolve() / "project")
    write_script(project, SLEEPING)
    (project / "conftest.py").write_text(LISTENER)
    if options.servers == "slow":
        ports = StandIn(0.5).server_port, StandIn(2.0).server_port
    else:
        ports = free_port(), free_port()
    matrix = write_matrix(project, options.entries, *ports)
    session_s(matrix, "--bench-sink", "none")
    ratios, whole, waits = [], [], []
    for _ in range(options.rounds):
        without, all_without, _ = session_s(matrix, "--bench-sink", "none")
        during, in_all, output = session_s(matrix)
        ratios.append(during / without)
        whole.append(in_all / all_without)
        waits.append(in_all - during)
        print(f"without {without:.2f} of {all_without:.2f} s, with {during:.2f} of {in_all:.2f} s", flush=True)
        if options.servers == "refusing" and output.count("warning: sink") != 2:
            sys.exit(f"expected one warning for each sink:\n{output}")
    write_results(options, {"ratio": median(ratios), "ratio_in_all": median(whole), "waited_s": median(waits)})


if __name__ == "__main__":
    main()
