"""The MLflow sink: a parent run per session, a nested run per run. A child process does the logging."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import ClassVar

from pydantic import Field

from curator_bench.sinks.child import ChildSink
from curator_bench.sinks.sink import SinkConfig


class MlflowConfig(SinkConfig):
    """The block `{name: mlflow, …}`."""

    tracking_uri: str = Field(
        default_factory=lambda: os.environ.get("MLFLOW_TRACKING_URI", ""),
        coerce_numbers_to_str=False,
        description="The server, in MLflow's form; default: MLFLOW_TRACKING_URI.",
    )
    experiment: str = Field(
        "curator-bench", min_length=1, max_length=500, description="The experiment; made if missing."
    )
    tags: dict[str, str] = Field(default_factory=dict, description="Further tags of every run.")
    artifacts: bool = Field(True, description="Upload results.json and the log.")
    max_artifact_mb: float = Field(
        20, gt=0, description="Size limit: only the end of a larger log is sent, and no other larger file."
    )
    system_metrics: bool = Field(True, description="Send memory and GPUs over time.")

    def lacks(self) -> str:
        return "" if self.tracking_uri else "tracking_uri, or the variable MLFLOW_TRACKING_URI"


class MlflowSink(ChildSink[MlflowConfig]):
    config_model = MlflowConfig
    needs = ("mlflow", "mlflow")
    worker = "curator_bench.sinks.mlflow_logging:MlflowLogging"
    at_once: ClassVar[int] = 8

    def environment(self) -> Mapping[str, str]:
        """Return short time limits for MLflow's client, because the delivery retries. The user's variables win."""
        ours = {
            "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "2",
            "MLFLOW_HTTP_REQUEST_BACKOFF_FACTOR": "1",
            "MLFLOW_HTTP_REQUEST_TIMEOUT": str(max(1, int(self.config.call_timeout_s / 3))),
            "MLFLOW_DISABLE_TELEMETRY": "true",
            "MLFLOW_ENABLE_ARTIFACTS_PROGRESS_BAR": "false",
            "GIT_PYTHON_REFRESH": "quiet",
        }
        return {name: os.environ.get(name, value) for name, value in ours.items()}
