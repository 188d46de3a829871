"""The jsonl sink: one JSON line per run, in a file or at a URL fsspec knows. `curator-bench import` reads them."""

from __future__ import annotations

import dataclasses
import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar

from pydantic import Field, field_validator

from curator_bench.files import safe_files
from curator_bench.files.codec import json_line, to_document
from curator_bench.files.locking import append_whole, lock
from curator_bench.files.planted import refuse_planted_on_the_way
from curator_bench.sinks.file_systems import lacking, opened
from curator_bench.sinks.sink import Sink, SinkConfig
from curator_bench.values import RunRecord, Session

_SCHEMA_VERSION = 1


class JsonlConfig(SinkConfig):
    """The block `{name: jsonl, …}`."""

    path: str = Field(
        "history.jsonl", min_length=1, description="A file, or the URL of a folder, such as s3://bucket/x/."
    )
    options: dict[str, Any] = Field(default_factory=dict, description="For fsspec, such as `{endpoint_url: …}`.")

    @field_validator("path")
    @classmethod
    def _is_folder(cls, value: str) -> str:
        if "://" in value and not value.endswith("/"):
            raise ValueError("expected the URL of a folder, which ends in /, because objects cannot be appended to")
        return value

    def lacks(self) -> str:
        return lacking(self.path) if "://" in self.path else ""


class JsonlSink(Sink[JsonlConfig]):
    """Appends to a file. At a URL each invocation has an object of its own, which is rewritten each time."""

    config_model = JsonlConfig
    at_once: ClassVar[int] = 200
    _session: Session
    _object = ""
    _lines: dict[str, bytes]
    """Lines of this invocation's object, by the uid of the run."""

    def start_session(self, session: Session) -> None:
        self._session = session
        self._lines = {}
        if "://" in self.config.path:
            self._object = f"{self.config.path}{session.name}__{session.invocation}.jsonl"
            self._lines = self._read_object()
            self.context.link("", self._object)

    def run_finished(self, result: RunRecord) -> None:
        self.runs_finished([result])

    def runs_finished(self, results: Sequence[RunRecord]) -> None:
        lines = {result.uid or result.nodeid: json_line(_document(result, self._session)) for result in results}
        if self._object:
            self._lines |= lines
            file_system, path = opened(self._object, self.config.options)
            file_system.pipe_file(path, b"".join(self._lines.values()))
        else:
            self._append(b"".join(lines.values()))

    def _append(self, lines: bytes) -> None:
        """Append all lines or, if the disk is full, none. Several processes may append at once."""
        path = self.context.matrix_dir / Path(self.config.path).expanduser()
        path.parent.mkdir(parents=True, exist_ok=True)
        refuse_planted_on_the_way(path)
        with safe_files.open_to_append(Path(os.path.realpath(path))) as file:
            lock(file)
            append_whole(file, lines, sync=True)

    def _read_object(self) -> dict[str, bytes]:
        file_system, path = opened(self._object, self.config.options)
        try:
            text: bytes = file_system.cat_file(path)
        except FileNotFoundError:
            return {}
        return {json.loads(line)["start"]["uid"]: line for line in text.splitlines(keepends=True)}


def _document(result: RunRecord, session: Session) -> dict[str, Any]:
    """Return a run in the form that `curator-bench export` writes."""
    parent = Path(session.directory).parent
    return {
        "schema_version": _SCHEMA_VERSION,
        "kind": "run",
        "session": {
            "name": session.name,
            "results_directory": str(parent),
            "uid": _session_uid(Path(session.directory)),
            **{key: getattr(session, key) or None for key in ("reason", "commit", "branch", "viewer_url")},
            "dirty": session.dirty,
            "subjects": [dataclasses.asdict(subject) for subject in session.subjects],
        },
        "invocation": {
            "uid": session.invocation,
            "start": session.started_at,
            "host": session.host,
            "ci_run_url": session.ci_run_url or None,
        },
        "start": {
            "uid": result.uid,
            "name": result.name,
            "path": result.file or result.nodeid.partition("::")[0],
            "originalname": result.entry,
            "nodeid": result.nodeid,
            "definition_hash": result.definition_hash or None,
            "attempt": result.attempt,
            "host": result.host or session.host,
            "machine_id": session.environment.get("machine_id") if result.host in ("", session.host) else None,
            "start": result.started_at,
            "ci_run_url": session.ci_run_url or None,
        },
        "end": _end(result),
    }


def _end(result: RunRecord) -> dict[str, Any]:
    document = to_document(result)
    names = ("verdict", "exit_code", "metrics", "params", "repeats")
    return {
        **{name: document[name] for name in names},
        "end": result.ended_at,
        "duration": result.duration_s,
        "error": result.error or None,
        "node": result.host or None,
        "gpu": ",".join(result.gpus) or None,
        "command": " ".join(result.command) or None,
        "log_path": result.shown_log_path or result.log_path or None,
        "figures": {
            "ray_version": result.ray_version or None,
            "ray_num_cpus": result.ray_num_cpus,
            "ray_num_gpus": result.ray_num_gpus,
        },
        "checks": document["requirements"],
    }


def _session_uid(directory: Path) -> str:
    """Return the uid by which databases know the session, or its name and folder if it has none."""
    try:
        return safe_files.read_text(directory / ".session-uid").strip()
    except (OSError, ValueError):
        return f"{directory.name} {directory.parent}"
