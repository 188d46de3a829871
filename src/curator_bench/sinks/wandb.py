"""The Weights & Biases sink: a run per run, grouped by session. A child process does the logging."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Literal

from pydantic import Field

from curator_bench.sinks.child import ChildSink
from curator_bench.sinks.sink import SinkConfig


class WandbConfig(SinkConfig):
    """The block `{name: wandb, …}`. The key comes from WANDB_API_KEY or from `wandb login`."""

    project: str = Field("curator-bench", min_length=1, description="The project.")
    entity: str | None = Field(None, description="The user or team it belongs to.")
    base_url: str | None = Field(None, description="Your own server; default: WANDB_BASE_URL.")
    mode: Literal["online", "offline"] | None = Field(None, description="Otherwise WANDB_MODE; online.")
    tags: list[str] = Field(default_factory=list, description="Further tags of every run.")
    artifacts: bool = Field(True, description="Upload results.json and the log.")
    max_artifact_mb: float = Field(20, gt=0, description="Larger files are left out.")


class WandbSink(ChildSink[WandbConfig]):
    config_model = WandbConfig
    needs = ("wandb", "wandb")
    worker = "curator_bench.sinks.wandb_logging:WandbLogging"

    def environment(self) -> Mapping[str, str]:
        ours = {
            "WANDB_SILENT": "true",
            "WANDB_CONSOLE": "off",
            "WANDB_DISABLE_GIT": "true",
            "WANDB_DISABLE_CODE": "true",
        }
        mode = self.config.mode or os.environ.get("WANDB_MODE")
        if mode == "offline":  # keep the files for a later upload with the session too
            ours["WANDB_DATA_DIR"] = str(self.context.session_dir / "wandb" / "data")
        found = {name: os.environ.get(name, value) for name, value in ours.items()}
        return found | ({"WANDB_BASE_URL": self.config.base_url} if self.config.base_url else {})
