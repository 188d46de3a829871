"""What a real MLflow server holds after a session, read back through its client."""

from __future__ import annotations

import json
import math
import os
import signal
import sqlite3
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from end_to_end.conftest import Outcome, Project
from sinks.conftest import MlflowServer, tried_twice, wait_for
from sinks.test_seam import resend, undelivered

from curator_bench.sinks.mlflow import MlflowConfig
from curator_bench.sinks.mlflow_logging import MlflowLogging
from curator_bench.sinks.mlflow_values import time_series
from curator_bench.sinks.sink import Context
from curator_bench.values import Run, RunRecord, Session, Summary, Verdict

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module", autouse=True)
def _installed() -> None:
    """Not when tests are collected: it takes more than a second."""
    pytest.importorskip("mlflow")


def client_of(server: MlflowServer) -> Any:
    from mlflow import MlflowClient

    return MlflowClient(server.url)


def mlflow_error() -> type[Exception]:
    from mlflow.exceptions import MlflowException

    return MlflowException


def entry_with(project: Project, name: str, metrics: dict[str, Any], **keys: Any) -> dict[str, Any]:
    return project.entry(name, f"--metrics '{json.dumps(metrics)}'", **keys)


def ended(moment: str, **more: Any) -> RunRecord:
    times: dict[str, Any] = {"started_at": moment, "ended_at": moment, "duration_s": 1.0}
    return RunRecord(name="a", entry="a", nodeid="m::a", verdict=Verdict.PASSED, uid="u", **times, **more)


def runs_of(server: MlflowServer, experiment: str) -> dict[str, Any]:
    """By name."""
    client = client_of(server)
    found = client.get_experiment_by_name(experiment)
    return {run.info.run_name: run for run in client.search_runs([found.experiment_id])} if found else {}


def sink(server: MlflowServer, experiment: str, **more: Any) -> dict[str, Any]:
    return {"name": "mlflow", "tracking_uri": server.url, "experiment": experiment, **more}


PATIENTLY = ("--bench-sink-grace", "200")
"""Nothing may be left for later, and it takes a busy machine long to import MLflow."""
ENTRIES = ("good", "bad", "slow", "twice", "long", "loud", "again")
LONG = '"text": "t" * 20_000'


@dataclass(frozen=True)
class ReadBack:
    """One session with everything in it, as the server has it."""

    server: MlflowServer
    folder: Path
    outcome: Outcome
    runs: dict[str, Any]

    @property
    def client(self) -> Any:
        return client_of(self.server)


@pytest.fixture(scope="module")
def read_back(tmp_path_factory: pytest.TempPathFactory, mlflow_server: MlflowServer) -> ReadBack:
    project = Project(tmp_path_factory.mktemp("project"))
    project.write("long.py", project.folder.joinpath("script.py").read_text().replace('"sleep": options.sleep', LONG))
    metrics = {"docs/s (peak) %": 12.5, "bad": math.nan, "label": "x" * 30, **{f"m{n}": n for n in range(200)}}
    tried_twice(
        project,
        entry_with(project, "good", metrics, marks=["nightly"], requirements=[{"metric": "m1", "exact_value": 1}]),
        entry_with(project, "bad", {"m": 1}, requirements=[{"metric": "m", "min_value": 5}]),
        project.entry("slow", "--sleep 30", timeout_s=2),
        project.entry("twice", repeat=2),
        {"name": "long", "script": "long.py"},
        project.entry("loud", "--say ${LOUD_TOKEN}"),
        sinks=[sink(mlflow_server, "all")],
        run_reason="to see",
        subjects=["pytest"],
    )
    outcome = project.run("--benchmark", "--benchmark-db", "b.db", *PATIENTLY, LOUD_TOKEN="planted-in-a-log")
    return ReadBack(mlflow_server, project.folder, outcome, runs_of(mlflow_server, "all"))


def test_a_session_and_its_runs_are_there(read_back: ReadBack) -> None:
    runs, client = read_back.runs, read_back.client
    assert set(runs) == {"s", *ENTRIES, "twice repeat 1", "twice repeat 2", "again (attempt 1)"}
    parent, good = runs["s"], runs["good"]
    assert {name: run.info.status for name, run in runs.items() if name in ("s", "good", "bad", "slow")} == {
        "s": "FAILED",
        "good": "FINISHED",
        "bad": "FAILED",
        "slow": "KILLED",
    }
    assert {runs[name].data.tags["mlflow.parentRunId"] for name in ("good", "bad", "twice")} == {parent.info.run_id}
    first, second = (runs[f"twice repeat {number}"] for number in (1, 2))
    assert second.data.tags["mlflow.parentRunId"] == runs["twice"].info.run_id
    assert first.info.start_time < first.info.end_time <= second.info.start_time < second.info.end_time
    assert second.data.tags["session"] == "s"
    assert good.data.metrics["m199"] == 199
    assert good.data.metrics["docs/s _peak_ _"] == 12.5
    assert good.data.tags["metric_name.docs/s _peak_ _"] == "docs/s (peak) %"
    assert math.isnan(good.data.metrics["bad"])
    assert (good.data.tags["metric.label"], good.data.tags["marks"], good.data.tags["reason"]) == (
        "x" * 30,
        "nightly",
        "to see",
    )
    assert good.data.tags["subject.pytest"] == pytest.__version__
    assert good.data.params["sleep"] == "0.0"
    assert {"results.json", "stdouterr.log"} <= {file.path for file in client.list_artifacts(good.info.run_id)}
    assert {"env.json", "packages.txt", "summary.json"} <= {
        file.path for file in client.list_artifacts(parent.info.run_id)
    }
    assert read_back.outcome.has(f"mlflow: {read_back.server.url}/#/experiments/")


def test_the_runs_addresses_are_in_the_database(read_back: ReadBack) -> None:
    database = sqlite3.connect(read_back.folder / "b.db")
    (of_run,) = database.execute("SELECT sink_urls FROM test_run WHERE name = 'good'").fetchone()
    (of_first_attempt,) = database.execute("SELECT sink_urls FROM test_run WHERE verdict = 'error'").fetchone()
    (of_session,) = database.execute("SELECT sink_urls FROM bench_session").fetchone()
    database.close()
    for urls, name in ((of_run, "good"), (of_first_attempt, "again (attempt 1)"), (of_session, "s")):
        assert json.loads(urls)["mlflow"].endswith(f"/runs/{read_back.runs[name].info.run_id}")


def test_each_attempt_is_a_run_with_its_own_files(read_back: ReadBack) -> None:
    tried = {name: run for name, run in read_back.runs.items() if name.startswith("again")}
    status = {name: (run.info.status, run.data.tags["attempt"]) for name, run in tried.items()}
    assert status == {"again (attempt 1)": ("FAILED", "1"), "again": ("FINISHED", "2")}
    assert "runs.error" not in read_back.runs["s"].data.tags
    client = read_back.client
    files = {name: {file.path for file in client.list_artifacts(run.info.run_id)} for name, run in tried.items()}
    assert {"results.json", "command.txt", "stdouterr.log"} <= files["again"]
    assert "results.json" not in files["again (attempt 1)"]


def test_secrets_that_a_script_printed_are_masked_in_the_log_that_is_sent(read_back: ReadBack) -> None:
    run = read_back.runs["loud"].info.run_id
    sent = Path(read_back.client.download_artifacts(run, "stdouterr.log")).read_text()
    assert ("***" in sent, "planted" in sent) == (True, False)


def test_memory_over_time_is_a_series_with_steps(read_back: ReadBack) -> None:
    run = read_back.runs["slow"]
    points = read_back.client.get_metric_history(run.info.run_id, "system/memory_bytes")
    assert len(points) >= 3
    assert [point.step for point in points] == list(range(len(points)))
    assert max(point.value for point in points) == run.data.metrics["peak_memory_bytes"]
    assert run.info.start_time <= points[0].timestamp < points[-1].timestamp <= run.info.end_time


def test_long_params_are_shortened_and_there_in_full(read_back: ReadBack) -> None:
    run = read_back.runs["long"]
    assert run.data.params["text"] == "t" * 5999 + "…"
    (full,) = read_back.client.list_artifacts(run.info.run_id, "full")
    assert full.file_size == 20_000


def test_invocations_of_one_session_share_its_run(project: Project, mlflow_server: MlflowServer) -> None:
    project.matrix(project.entry("a"), project.entry("b"), sinks=[sink(mlflow_server, "shared")])
    assert project.run("--benchmark", "--bench-entries", "a", *PATIENTLY).code == 0
    assert project.run("--benchmark", "--bench-entries", "b", *PATIENTLY).code == 0
    client = client_of(mlflow_server)
    found = client.search_runs([client.get_experiment_by_name("shared").experiment_id])
    assert sorted(run.info.run_name for run in found) == ["a", "b", "s"]


class _Noting:
    """A client that makes runs of no server, and notes what it is asked to log."""

    def __init__(self) -> None:
        self.sizes: list[tuple[int, int]] = []
        self.files: dict[str, bytes] = {}
        self.tags: dict[str, str] = {}

    def get_experiment_by_name(self, name: str) -> Any:
        return SimpleNamespace(experiment_id="1", lifecycle_stage="active")

    def create_run(self, *given: Any) -> Any:
        return SimpleNamespace(info=SimpleNamespace(run_id=given[-1]))

    def log_batch(self, run: str, metrics: list[Any], params: list[Any], tags: list[Any], synchronous: bool) -> None:
        self.sizes.append((len(metrics), len(params)))

    def log_artifact(self, run: str, path: str) -> None:
        self.files[Path(path).name] = Path(path).read_bytes()

    def set_tag(self, run: str, name: str, why: str) -> None:
        self.tags[name] = why

    def update_run(self, run: str, status: str) -> None: ...

    def set_terminated(self, run: str, status: str, ended: int) -> None: ...


def told_of(folder: Path, *, alive: Callable[[], None] = lambda: None, **given: Any) -> _Noting:
    """The client of a sink that was told of one run. `max_artifact_mb` is the sink's; all else is of the run."""
    ignored = lambda *given: None  # noqa: E731
    limits = {"max_artifact_mb": given.pop("max_artifact_mb")} if "max_artifact_mb" in given else {}
    config = MlflowConfig(tracking_uri="x", **limits)
    logging = MlflowLogging(config, Context("mlflow", folder, folder, ignored, ignored, alive=alive))
    client: Any = _Noting()
    logging.client = client
    moment = "2026-01-23T14:30:00+00:00"
    logging.start_session(Session("s", str(folder), "i", started_at=moment))
    logging.run_finished(ended(moment, **given))
    assert isinstance(client, _Noting)
    return client


def test_two_hundred_metrics_are_one_request(tmp_path: Path) -> None:
    params, metrics = {f"p{n}": "1" for n in range(50)}, {f"m{n}": float(n) for n in range(200)}
    (size,) = told_of(tmp_path, params=params, metrics=metrics).sizes
    assert size >= (200, 50)


def test_what_gets_on_slowly_shows_signs_of_life(tmp_path: Path) -> None:
    signs: list[bool] = []
    log = tmp_path / "stdouterr.log"
    log.touch()
    told_of(tmp_path, alive=lambda: signs.append(True), log_path=str(log))
    assert len(signs) == 2


def test_of_a_log_that_is_too_long_the_end_is_sent_and_other_files_are_left_out(tmp_path: Path) -> None:
    for name in ("stdouterr.log", "results.json"):
        (tmp_path / name).write_bytes(b"beginning\n" + b"a line.\n" * 2**17)
    client = told_of(tmp_path, max_artifact_mb=1, log_path=str(tmp_path / "stdouterr.log"), directory=str(tmp_path))
    (sent,) = client.files.values()
    assert sent.count(b"a line.") == pytest.approx(2**17, abs=2)
    assert b"beginning" not in sent
    assert list(client.tags) == ["left_out.results.json"]


def test_gpus_over_time_are_a_series_of_each(tmp_path: Path) -> None:
    lines = ["time,gpu,utilization_percent,memory_used_bytes,power_w"]
    lines += [f"2026-01-23T14:30:0{second}+00:00,{gpu},{second * 10},5,n/a" for second in range(3) for gpu in (0, 1)]
    (tmp_path / "gpustats.csv").write_text("\n".join(lines))
    points = list(time_series(tmp_path))
    of_first = [point for point in points if point.name == "system/gpu_0_utilization_percentage"]
    assert [(point.step, point.value) for point in of_first] == [(0, 0.0), (1, 10.0), (2, 20.0)]
    assert {point.name.partition("gpu_")[2] for point in points} == {
        f"{gpu}_{what}" for gpu in (0, 1) for what in ("utilization_percentage", "memory_usage_bytes")
    }


class _TakesLong:
    """A client whose server takes half a second to make a run."""

    def __init__(self, client: Any) -> None:
        self._client = client

    def __getattr__(self, name: str) -> Any:
        return getattr(self._client, name)

    def create_run(self, *given: Any) -> Any:
        time.sleep(0.5)
        return self._client.create_run(*given)


def test_invocations_that_start_at_the_same_moment_make_one_run(tmp_path: Path, mlflow_server: MlflowServer) -> None:
    def joined(invocation: str) -> None:
        ignored = lambda *given: None  # noqa: E731
        context = Context("mlflow", tmp_path, tmp_path, link=ignored, say=ignored)
        config = MlflowConfig(tracking_uri=mlflow_server.url, experiment="at once")
        logging = MlflowLogging(config, context)
        client: Any = _TakesLong(client_of(mlflow_server))
        logging.client = client
        logging.start_session(Session("s", str(tmp_path), invocation, started_at="2026-01-23T14:30:00+00:00"))

    with ThreadPoolExecutor() as together:
        list(together.map(joined, "abc"))
    client = client_of(mlflow_server)
    assert len(client.search_runs([client.get_experiment_by_name("at once").experiment_id])) == 1


class _AnswersTooLate:
    """A client that gives up on the first two runs it asks for: one is made in time, the other when all is told."""

    def __init__(self, client: Any) -> None:
        self._client = client
        self.asked: list[tuple[Any, ...]] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._client, name)

    def create_run(self, *given: Any) -> Any:
        self.asked.append(given)
        if len(self.asked) == 1:
            self._client.create_run(*given)
        if len(self.asked) <= 2:
            raise mlflow_error()("timed out")
        return self._client.create_run(*given)

    def set_terminated(self, *given: Any) -> None:
        if len(self.asked) == 3:
            self.create_run(*self.asked[1])
        self._client.set_terminated(*given)


def test_a_run_whose_making_was_answered_too_late_is_there_once(tmp_path: Path, mlflow_server: MlflowServer) -> None:
    ignored = lambda *given: None  # noqa: E731
    logging = MlflowLogging(
        MlflowConfig(tracking_uri=mlflow_server.url, experiment="late"),
        Context("mlflow", tmp_path, tmp_path, link=ignored, say=ignored),
    )
    client: Any = _AnswersTooLate(client_of(mlflow_server))
    logging.client = client
    moment = "2026-01-23T14:30:00+00:00"
    session = Session("s", str(tmp_path), "i", started_at=moment)
    experiment = client.create_experiment("late")
    client_of(mlflow_server).create_run(experiment, 0, {}, "another")
    run = Run(name="a", entry="a", nodeid="m::a", started_at=moment)
    for call in (partial(logging.start_session, session), partial(logging.run_started, run)):
        with pytest.raises(mlflow_error(), match="timed out"):
            call()
        call()
    logging.run_finished(ended(moment))
    assert len(client.search_runs([experiment])) == 4
    logging.end_session(Summary({"passed": 1}, moment, moment, 1.0, 0))
    left = {run.info.run_name: run.info.status for run in client.search_runs([experiment])}
    assert left == {"s": "FINISHED", "a": "FINISHED", "another": "RUNNING"}
    assert len(client.search_runs([experiment])) == 3


def test_what_was_interrupted_is_killed_and_its_earlier_attempt_is_there(
    project: Project, mlflow_server: MlflowServer
) -> None:
    tried_twice(project, project.entry("never"), args="--sleep 60", sinks=[sink(mlflow_server, "interrupted")])
    process = project.start("--benchmark", *PATIENTLY)
    wait_for(lambda: (project.session_dir / "again" / "attempt_2" / "logs" / "stdouterr.log").exists())
    os.kill(process.pid, signal.SIGINT)
    ended = project.outcome(process)
    assert ended.code == 2, ended.output
    runs = runs_of(mlflow_server, "interrupted")
    assert {name: run.info.status for name, run in runs.items()} == {
        "s": "KILLED",
        "again (attempt 1)": "FAILED",
        "again": "KILLED",
    }
    assert runs["again"].data.tags["verdict"] == "interrupted"


def test_a_server_that_is_restarted_gets_everything(project: Project, mlflow_server: MlflowServer) -> None:
    names = [f"r{number}" for number in range(6)]
    project.matrix(*(project.entry(name, "--sleep 2") for name in names), sinks=[sink(mlflow_server, "restart")])
    process = project.start("--benchmark", *PATIENTLY)
    wait_for(lambda: "r0" in runs_of(mlflow_server, "restart"))
    mlflow_server.kill()
    mlflow_server.start()
    outcome = project.outcome(process)
    assert outcome.code == 0
    runs = runs_of(mlflow_server, "restart")
    if undelivered(project):
        assert resend(project).returncode == 0
    runs = runs_of(mlflow_server, "restart")
    assert {name: run.info.status for name, run in runs.items()} == dict.fromkeys(["s", *names], "FINISHED")


def test_with_the_server_away_the_session_passes_and_resend_delivers(
    project: Project, mlflow_server: MlflowServer, new_port: Callable[[], int]
) -> None:
    away = {**sink(mlflow_server, "away"), "tracking_uri": "${SERVER}"}
    project.matrix(project.entry("a"), project.entry("b"), sinks=[away])
    outcome = project.run("--benchmark", SERVER=f"http://127.0.0.1:{new_port()}")
    assert outcome.code == 0
    assert outcome.output.count("cannot be reached") == 1
    again = resend(project, SERVER=mlflow_server.url)
    assert again.returncode == 0, again.stdout
    assert "mlflow: 2 results and the end of the session delivered" in again.stdout
    assert {name: run.info.status for name, run in runs_of(mlflow_server, "away").items()} == dict.fromkeys(
        "sab", "FINISHED"
    )
