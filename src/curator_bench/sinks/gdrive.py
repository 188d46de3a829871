"""The Google Drive sink: uploads the session's folder as an archive when it ends. A child process does the work."""

from __future__ import annotations

import os

from pydantic import BaseModel, ConfigDict, Field

from curator_bench.sinks.child import ChildSink
from curator_bench.sinks.sink import SinkConfig


class GdriveConfig(SinkConfig):
    """The block `{name: gdrive, …}`."""

    drive_folder_id: str = Field(min_length=1, description="The folder, shared with the service account.")
    service_account_file: str = Field(
        default_factory=lambda: os.environ.get("GOOGLE_APPLICATION_CREDENTIALS", ""),
        description="The service account's JSON file; default: GOOGLE_APPLICATION_CREDENTIALS.",
    )
    chunk_mb: float = Field(8, ge=0.25, description="Size of one piece of the upload.")
    api_url: str = Field("", description="A replacement for Google's API, for tests.")

    def lacks(self) -> str:
        return (
            "" if self.service_account_file else "service_account_file, or the variable GOOGLE_APPLICATION_CREDENTIALS"
        )


class GdriveData(BaseModel):
    """Any `sink_data` is accepted and ignored."""

    model_config = ConfigDict(extra="allow")


class GdriveSink(ChildSink[GdriveConfig]):
    config_model = GdriveConfig
    data_model = GdriveData
    needs = ("googleapiclient", "gdrive")
    worker = "curator_bench.sinks.gdrive_upload:GdriveUpload"
