"""No secret of a sink gets into anything that is written, wherever it stands and whatever goes wrong."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from end_to_end.conftest import Project
from sinks.conftest import Slack
from sinks.test_seam import resend

from curator_bench.errors import MissingExtra
from curator_bench.sinks import registry
from curator_bench.sinks.sink import Sink

PLANTED = {
    "SLACK_BOT_TOKEN": "xoxb-planted-0001",
    "MY_WEBHOOK": "/services/T1planted/B1planted/planted0002",
    "MLFLOW_PASSWORD": "planted0003",
    "MLFLOW_TRACKING_TOKEN": "planted-0004-token",
    "WANDB_API_KEY": "planted0005" + "a" * 29,
    "AWS_SECRET_ACCESS_KEY": "planted-0006-secret",
    "REASON_TOKEN": "planted-0007-reason",
    "VIEWER_KEY": "planted-0008-viewer",
    "S3_ID": "AKIA-an-id-that-stands-in-every-request-and-is-no-secret",
    "S3_SECRET": "planted-0013-secret",
}
ACCOUNT = {
    "type": "service_account",
    "client_email": "bench@example",
    "private_key_id": "planted0014",
    "private_key": "-----BEGIN PRIVATE KEY-----\nplanted0015\n-----END PRIVATE KEY-----\n",
}
IN_FULL = ("--junitxml=junit.xml", "--log-file=log.txt", "--log-level=DEBUG", "-v")


@pytest.mark.slow
def test_no_secret_is_written_anywhere(project: Project, slack: Slack, new_port: Callable[[], int]) -> None:
    away = new_port()
    variables = {**PLANTED, "MY_WEBHOOK": f"http://127.0.0.1:{away}{PLANTED['MY_WEBHOOK']}"}
    project.write(
        "failing.py",
        """\
        from curator_bench.sinks import Sink
        from curator_bench.sinks.adapters import OpenConfig

        class Failing(Sink[OpenConfig]):
            config_model = OpenConfig

            def start_session(self, session):
                raise RuntimeError(f"no way in with {self.config.model_extra}")
        """,
    )
    project.write("account.json", json.dumps({**ACCOUNT, "token_uri": f"http://127.0.0.1:{away}/token"}))
    project.matrix(
        project.entry("a", "--exit 1"),
        project.entry(
            "b",
            "--say ${REASON_TOKEN}",
            env={"MY_API_KEY": "planted-0009-entry"},
            sink_data=[{"name": "mlflow", "in": ["${REASON_TOKEN}"], "deeper": {"password": "planted-0018-data"}}],
        ),
        sinks=[
            {"name": "slack", "webhook_url": "${MY_WEBHOOK}"},
            {"name": "mlflow", "tracking_uri": f"http://me:${{MLFLOW_PASSWORD}}@127.0.0.1:{away}"},
            {"name": "wandb", "mode": "offline"},
            {
                "name": "jsonl",
                "path": f"s3://bucket/{'x' * 5}/",
                "options": {
                    "endpoint_url": f"http://127.0.0.1:{away}",
                    "key": "${S3_ID}",
                    "secret": "${S3_SECRET}",
                    "config_kwargs": {"retries": {"total_max_attempts": 1}},
                },
            },
            {"name": "gdrive", "drive_folder_id": "F", "service_account_file": "account.json"},
            {
                "name": "./failing.py:Failing",
                "api_token": "planted-0010-literal",
                "nested": {"password": "planted-0011"},
            },
        ],
        run_reason="because ${REASON_TOKEN}",
        viewer_url_template="http://viewer/{session_name_url}?key=${VIEWER_KEY}",
    )
    outcome = project.run("--benchmark", *IN_FULL, "--bench-sink-grace", "20", **variables)
    assert outcome.code == 1
    own = {"matrix.yaml", "account.json", "results/s/b/logs/stdouterr.log"}
    assert_nothing_planted(project, own, outcome.output, resend(project, **variables).stdout)


def test_no_secret_of_a_bot_a_database_or_an_option_is_written_anywhere(
    project: Project, slack: Slack, new_port: Callable[[], int]
) -> None:
    token = PLANTED["SLACK_BOT_TOKEN"]
    slack.answers = [(200, {}, {"ok": False, "error": f"what is {token}?"}) for _ in range(4)]
    project.matrix(project.entry("a"), sinks=[{"name": "slack", "channel_id": "C", "api_url": f"{slack.url}/api/"}])
    database = f"postgresql://me:planted0016@127.0.0.1:{new_port()}/bench"
    viewer = ("-o", "bench_viewer_url=http://viewer/?token=planted0017")
    outcome = project.run("--benchmark", *IN_FULL, *viewer, SLACK_BOT_TOKEN=token)
    again = resend(project, SLACK_BOT_TOKEN=token)
    assert "Slack refuses: what is ***?" in again.stdout
    assert "Slack refuses: what is ***?" in outcome.output
    refused = project.run("--benchmark", "-o", f"benchmark_db={database}", SLACK_BOT_TOKEN=token)
    assert "://me:***@" in refused.output
    assert_nothing_planted(project, {"matrix.yaml"}, outcome.output, again.stdout, refused.output)


def assert_nothing_planted(project: Project, own: set[str], *outputs: str) -> None:
    """In what was printed and in all that was written, but for the files that are the user's or a script's own."""
    written = [path for path in project.folder.rglob("*") if path.is_file()]
    written = [path for path in written if str(path.relative_to(project.folder)) not in own]
    assert len(written) > 15
    assert [line for output in outputs for line in output.splitlines() if "planted" in line] == []
    assert [path for path in written if b"planted" in path.read_bytes()] == []


def test_a_missing_extra_is_one_line_with_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    class Needy(Sink):  # type: ignore[type-arg]
        needs = ("no_such_library", "wandb")

    with pytest.raises(MissingExtra, match=r"the sink wandb needs .* pip install 'curator-bench\[wandb\]'"):
        registry.check_extra(Needy, "wandb")


@pytest.mark.slow
def test_pytest_starts_without_any_sinks_library(project: Project) -> None:
    project.matrix(project.entry("a"), sinks=[{"name": "mlflow", "tracking_uri": "http://127.0.0.1:1"}])
    script = project.write(
        "start.py",
        """\
        import sys
        import pytest
        pytest.main(["matrix.yaml", "-q", "-p", "no:cacheprovider"])
        print("loaded", sorted({"mlflow", "slack_sdk", "wandb", "googleapiclient", "fsspec"} & set(sys.modules)))
        """,
    )
    assert Path(sys.executable).exists()
    import subprocess

    done = subprocess.run(
        [sys.executable, script.name],
        cwd=project.folder,
        env=project.environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    assert "loaded []" in done.stdout, done.stdout + done.stderr
