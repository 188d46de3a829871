"""No secret of a sink gets into anything that is written, wherever it stands and whatever goes wrong."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from end_to_end.conftest import Project
from sinks.conftest import Slack, free_port
from sinks.test_seam import resend

from curator_bench.errors import MissingExtra
from curator_bench.sinks import finding
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
}


def test_no_secret_is_written_anywhere(project: Project, slack: Slack) -> None:
    away = free_port()
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
    project.matrix(
        project.entry("a", "--exit 1"),
        project.entry("b", "--say ${REASON_TOKEN}", env={"MY_API_KEY": "planted-0009-entry"}),
        sinks=[
            {"name": "slack", "webhook_url": "${MY_WEBHOOK}"},
            {"name": "mlflow", "tracking_uri": f"http://me:${{MLFLOW_PASSWORD}}@127.0.0.1:{away}"},
            {"name": "wandb", "mode": "offline"},
            {
                "name": "jsonl",
                "path": f"s3://bucket/{'x' * 5}/",
                "options": {"endpoint_url": f"http://127.0.0.1:{away}"},
            },
            {
                "name": "./failing.py:Failing",
                "api_token": "planted-0010-literal",
                "nested": {"password": "planted-0011"},
            },
        ],
        run_reason="because ${REASON_TOKEN}",
        viewer_url_template="http://viewer/{session_name_url}?key=${VIEWER_KEY}",
    )
    outcome = project.run("--benchmark", "--bench-sink-grace", "20", **variables)
    assert outcome.code == 1
    outputs = [outcome.output, resend(project, **variables).stdout]
    own = {project.folder / "matrix.yaml", project.session_dir / "b" / "logs" / "stdouterr.log"}
    written = [path for path in project.folder.rglob("*") if path.is_file() and path not in own]
    assert len(written) > 20
    for text in ("planted", "T1planted"):
        assert [line for output in outputs for line in output.splitlines() if text in line] == []
        assert [path for path in written if text.encode() in path.read_bytes()] == []


def test_a_missing_extra_is_one_line_with_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    class Needy(Sink):  # type: ignore[type-arg]
        needs = ("no_such_library", "wandb")

    with pytest.raises(MissingExtra, match=r"the sink wandb needs .* pip install 'curator-bench\[wandb\]'"):
        finding.check_extra(Needy, "wandb")


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
