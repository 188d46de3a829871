"""The copy sink: copies a session's files to any URL fsspec knows (`--bench-copy-to`), in a child process."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pydantic import Field

from curator_bench.sinks.child import ChildSink
from curator_bench.sinks.file_systems import lacking, local_folder
from curator_bench.sinks.sink import SinkConfig
from curator_bench.values import Run

NAME = "copy"


class CopyConfig(SinkConfig):
    """The block `{name: copy, …}`."""

    to: str = Field("", description="A folder, or its URL, such as s3://bucket/x; default: --bench-copy-to.")
    options: dict[str, Any] = Field(default_factory=dict, description="For fsspec, such as `{endpoint_url: …}`.")

    def lacks(self) -> str:
        return lacking(self.to) if self.to else "a target: `to`, or --bench-copy-to"

    def is_within(self, session_dir: Path, base: Path) -> bool:
        """True if the copy would be written onto the session or inside it."""
        folder = local_folder(self.to, base)
        return folder is not None and (folder / session_dir.name).resolve().is_relative_to(session_dir.resolve())


class CopySink(ChildSink[CopyConfig]):
    config_model = CopyConfig
    worker = "curator_bench.sinks.copying_files:FileCopies"

    def run_started(self, run: Run) -> None:
        """No-op: there are no files to copy yet."""
