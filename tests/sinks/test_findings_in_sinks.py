"""One cause is one message, however many entries and metrics it made worse."""

from __future__ import annotations

import dataclasses
import shutil

import pytest
from end_to_end.conftest import Project
from sinks.conftest import MlflowServer, Slack, slowed
from sinks.test_slack import sink, texts

from curator_bench.files.codec import from_document, to_document
from curator_bench.sinks import github
from curator_bench.values import OpenFinding, RunRecord, Session, Summary, Verdict

FINDING = OpenFinding(
    name="r-cb10dd",
    title="sort time_s +15.5%, with 2 other entries",
    entry="sort",
    path="matrix.yaml",
    metric="time_s",
    machine="",
    change=0.155,
    before=1.0,
    after=1.155,
    since="2026-02-15T03:00:00+00:00",
    session="02-15",
    commits=("9" * 40, "f" * 40),
    entries=("sort", "merge", "scan"),
    metrics=("time_s",),
    changed=("commits 999999999999..ffffffffffff", "  ffffffff 2026-02-14 Ann Author: Sort by hand"),
)


def summary(*findings: OpenFinding) -> Summary:
    return Summary({"failed": 3}, "2026-03-01T00:00:00+00:00", "2026-03-01T00:01:00+00:00", 60.0, 1, findings)


def test_a_summary_of_an_older_release_is_read_and_a_new_one_keeps_its_findings() -> None:
    old = to_document(summary())
    del old["findings"]
    assert from_document(Summary, old).findings == ()
    assert from_document(Summary, to_document(summary(FINDING))).findings == (FINDING,)


def test_slack_has_one_line_and_one_reply_for_the_finding_of_two_entries(project: Project, slack: Slack) -> None:
    name = slowed(project, sinks=[sink(slack)])
    assert project.run("--benchmark").code == 0
    assert slack.problems == []
    last = slack.of("chat.update")[-1]
    (line,) = [line for line in texts(last).splitlines() if name in line]
    assert ", with 1 other entry since " in line
    (reply,) = [reply for reply in slack.replies if name in reply["text"]]
    assert reply["thread_ts"] == last["ts"]
    assert "*what changed*\n```commits " in texts(reply)
    assert "entries: a, b" in texts(reply) or "entries: b, a" in texts(reply)
    shutil.rmtree(project.session_dir / "b")
    again = project.run("--benchmark", "--bench-resume")
    assert (again.code, again.has(f"({name})")) == (0, True)
    assert len([reply for reply in slack.replies if name in reply["text"]]) == 1


def test_slack_tells_what_one_cause_changed_once_not_with_every_entry(project: Project, slack: Slack) -> None:
    slowed(project, 2.3, sinks=[sink(slack)])
    assert project.run("--benchmark", "--bench-confirm", "0").code == 1
    of_runs = [reply for reply in slack.replies if "failed in" in reply["text"]]
    assert len(of_runs) == 2
    assert sum("what changed" in texts(reply) for reply in of_runs) == 1


def test_the_summary_on_github_has_one_line_for_a_finding_with_its_commits_folded() -> None:
    session = Session("nightly", "/results/nightly")
    run = RunRecord(name="sort", nodeid="m.yaml::sort", verdict=Verdict.FAILED, changed=FINDING.changed)
    other = dataclasses.replace(run, name="merge", nodeid="m.yaml::merge")
    text = github.markdown(session, [run, other], summary(FINDING), [])
    assert text.count("r-cb10dd") == 1
    assert "### Open regressions" in text
    assert "Ann Author: Sort by hand" in text.partition("r-cb10dd")[2]
    assert text.count("<summary>What changed: sort, merge</summary>") == 1
    assert "Open regressions" not in github.markdown(session, [run], summary(), [])


@pytest.mark.slow
def test_mlflow_has_it_on_the_run_of_the_session(project: Project, mlflow_server: MlflowServer) -> None:
    from mlflow import MlflowClient
    from mlflow.artifacts import load_dict

    name = slowed(project, sinks=[{"name": "mlflow", "tracking_uri": mlflow_server.url, "experiment": "found"}])
    outcome = project.run("--benchmark", "--bench-sink-grace", "200")
    assert outcome.code == 0, outcome.output
    client = MlflowClient(mlflow_server.url)
    experiment = client.get_experiment_by_name("found")
    assert experiment is not None
    runs = {run.info.run_name: run for run in client.search_runs([experiment.experiment_id])}
    parent = runs["s"]
    assert parent.data.metrics["open_regressions"] == 1
    assert ", with 1 other entry since " in parent.data.tags[f"open_regression.{name}"]
    with_all = client.list_artifacts(parent.info.run_id)
    assert "open_regressions.json" in {one.path for one in with_all}
    import mlflow

    mlflow.set_tracking_uri(mlflow_server.url)
    (told,) = load_dict(f"runs:/{parent.info.run_id}/open_regressions.json")["findings"]
    assert told["changed"][0].startswith("commits ")
