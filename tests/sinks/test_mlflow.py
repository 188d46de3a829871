"""What a real MLflow server holds after a session, read back through its client."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from typing import Any

import pytest
from end_to_end.conftest import Project
from sinks.conftest import MlflowServer, tried_twice, wait_for
from sinks.test_seam import resend, undelivered

mlflow = pytest.importorskip("mlflow")


def entry_with(project: Project, name: str, metrics: dict[str, Any], **keys: Any) -> dict[str, Any]:
    return project.entry(name, f"--metrics '{json.dumps(metrics)}'", **keys)


def runs_of(server: MlflowServer, experiment: str) -> dict[str, Any]:
    """By name."""
    client = mlflow.MlflowClient(server.url)
    found = client.get_experiment_by_name(experiment)
    return {run.info.run_name: run for run in client.search_runs([found.experiment_id])} if found else {}


def sink(server: MlflowServer, experiment: str, **more: Any) -> dict[str, Any]:
    return {"name": "mlflow", "tracking_uri": server.url, "experiment": experiment, **more}


def test_a_session_and_its_runs_are_there(project: Project, mlflow_server: MlflowServer) -> None:
    metrics = {"docs/s (peak) %": 12.5, "bad": math.nan, "label": "x" * 30, **{f"m{n}": n for n in range(200)}}
    project.matrix(
        entry_with(project, "good", metrics, marks=["nightly"], requirements=[{"metric": "m1", "exact_value": 1}]),
        entry_with(project, "bad", {"m": 1}, requirements=[{"metric": "m", "min_value": 5}]),
        project.entry("slow", "--sleep 30", timeout_s=0.5),
        project.entry("twice", repeat=2),
        sinks=[sink(mlflow_server, "all")],
        run_reason="to see",
    )
    outcome = project.run("--benchmark")
    runs = runs_of(mlflow_server, "all")
    assert set(runs) == {"s", "good", "bad", "slow", "twice", "twice repeat 1", "twice repeat 2"}
    parent, good = runs["s"], runs["good"]
    assert {name: run.info.status for name, run in runs.items() if name in ("s", "good", "bad", "slow")} == {
        "s": "FAILED",
        "good": "FINISHED",
        "bad": "FAILED",
        "slow": "KILLED",
    }
    assert {runs[name].data.tags["mlflow.parentRunId"] for name in ("good", "bad", "twice")} == {parent.info.run_id}
    assert runs["twice repeat 2"].data.tags["mlflow.parentRunId"] == runs["twice"].info.run_id
    assert good.data.metrics["m199"] == 199
    assert good.data.metrics["docs/s _peak_ _"] == 12.5
    assert good.data.tags["metric_name.docs/s _peak_ _"] == "docs/s (peak) %"
    assert math.isnan(good.data.metrics["bad"])
    assert (good.data.tags["metric.label"], good.data.tags["marks"], good.data.tags["reason"]) == (
        "x" * 30,
        "nightly",
        "to see",
    )
    assert good.data.params["sleep"] == "0.0"
    client = mlflow.MlflowClient(mlflow_server.url)
    assert {"results.json", "stdouterr.log"} <= {file.path for file in client.list_artifacts(good.info.run_id)}
    assert {"env.json", "packages.txt", "summary.json"} <= {
        file.path for file in client.list_artifacts(parent.info.run_id)
    }
    assert outcome.has(f"mlflow: {mlflow_server.url}/#/experiments/")


def test_the_runs_addresses_are_in_the_database(project: Project, mlflow_server: MlflowServer) -> None:
    import sqlite3

    project.matrix(project.entry("a"), sinks=[sink(mlflow_server, "stored")])
    assert project.run("--benchmark", "--benchmark-db", "b.db").code == 0
    ids = {name: run.info.run_id for name, run in runs_of(mlflow_server, "stored").items()}
    database = sqlite3.connect(project.folder / "b.db")
    ((of_run,),) = database.execute("SELECT sink_urls FROM test_run").fetchall()
    ((of_session,),) = database.execute("SELECT sink_urls FROM bench_session").fetchall()
    database.close()
    assert json.loads(of_run)["mlflow"].endswith(f"/runs/{ids['a']}")
    assert json.loads(of_session)["mlflow"].endswith(f"/runs/{ids['s']}")


def test_invocations_of_one_session_share_its_run(project: Project, mlflow_server: MlflowServer) -> None:
    project.matrix(project.entry("a"), project.entry("b"), sinks=[sink(mlflow_server, "shared")])
    assert project.run("--benchmark", "--bench-entries", "a").code == 0
    assert project.run("--benchmark", "--bench-entries", "b").code == 0
    client = mlflow.MlflowClient(mlflow_server.url)
    found = client.search_runs([client.get_experiment_by_name("shared").experiment_id])
    assert sorted(run.info.run_name for run in found) == ["a", "b", "s"]


def test_each_attempt_is_a_run_with_its_own_files(project: Project, mlflow_server: MlflowServer) -> None:
    tried_twice(project, sinks=[sink(mlflow_server, "attempts")])
    assert project.run("--benchmark").code == 0
    runs = runs_of(mlflow_server, "attempts")
    status = {name: (run.info.status, run.data.tags.get("attempt")) for name, run in runs.items()}
    assert status == {"s": ("FINISHED", None), "again (attempt 1)": ("FAILED", "1"), "again": ("FINISHED", "2")}
    client = mlflow.MlflowClient(mlflow_server.url)
    files = {name: {file.path for file in client.list_artifacts(run.info.run_id)} for name, run in runs.items()}
    assert {"results.json", "command.txt", "stdouterr.log"} <= files["again"]
    assert "results.json" not in files["again (attempt 1)"]


def test_memory_over_time_is_a_series_with_steps(project: Project, mlflow_server: MlflowServer) -> None:
    project.matrix(project.entry("a", "--sleep 2"), sinks=[sink(mlflow_server, "series")])
    assert project.run("--benchmark").code == 0
    run = runs_of(mlflow_server, "series")["a"]
    points = mlflow.MlflowClient(mlflow_server.url).get_metric_history(run.info.run_id, "system/memory_bytes")
    assert len(points) >= 3
    assert [point.step for point in points] == list(range(len(points)))
    assert max(point.value for point in points) == run.data.metrics["peak_memory_bytes"]
    assert run.info.start_time <= points[0].timestamp < points[-1].timestamp <= run.info.end_time


def test_long_params_are_shortened_and_there_in_full(project: Project, mlflow_server: MlflowServer) -> None:
    project.write("long.py", project.folder.joinpath("script.py").read_text().replace('"sleep": options.sleep', LONG))
    project.matrix({"name": "a", "script": "long.py"}, sinks=[sink(mlflow_server, "long")])
    assert project.run("--benchmark").code == 0
    run = runs_of(mlflow_server, "long")["a"]
    assert run.data.params["text"] == "t" * 5999 + "…"
    client = mlflow.MlflowClient(mlflow_server.url)
    (full,) = client.list_artifacts(run.info.run_id, "full")
    assert full.file_size == 20_000


LONG = '"text": "t" * 20_000'


def test_a_server_that_is_restarted_gets_everything(project: Project, mlflow_server: MlflowServer) -> None:
    names = [f"r{number}" for number in range(6)]
    project.matrix(*(project.entry(name, "--sleep 2") for name in names), sinks=[sink(mlflow_server, "restart")])
    process = project.start("--benchmark", "--bench-sink-grace", "120")
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
