"""Archives a session and uploads it piece by piece. Runs in the child process of the Google Drive sink.

An interrupted upload is continued by the next one, with the same archive, where Drive says it stopped.
"""

from __future__ import annotations

import json
import tarfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from curator_bench.sinks.copying_files import files_below
from curator_bench.sinks.gdrive import GdriveConfig
from curator_bench.sinks.sink import Refused, Sink
from curator_bench.values import RunRecord, Session, Summary

_SCOPES = ["https://www.googleapis.com/auth/drive"]
_LEFT_OUT = ("scratch", "ray_cluster")
_PAUSES_S = (1.0, 2.0, 4.0, 8.0)
_SIGN_OF_LIFE_S = 5.0
_MOST_FINDINGS = 20
"""The most findings that the description of the upload names."""
_GRANULE = 256 * 1024
"""The size of each piece of an upload is a multiple of this."""


class GdriveUpload(Sink[GdriveConfig]):
    config_model = GdriveConfig
    _session: Session

    def start_session(self, session: Session) -> None:
        self._session = session

    def run_finished(self, result: RunRecord) -> None:
        """No-op: the result is in the session's folder, which is uploaded at the end."""

    def end_session(self, summary: Summary) -> None:
        archive = self.context.state.path.with_name(f"{self.context.name}.tar.gz")
        state = self.context.state.read()
        if "upload" not in state or not archive.exists():
            self._archive(archive)
            state = {}
        try:
            found = self._upload(archive, state.get("upload"), summary)
        except Exception as error:
            raise _explained(error) from error
        with self.context.state.changing() as state:
            state.pop("upload", None)
            state.setdefault("files", []).append(found["id"])
        archive.unlink(missing_ok=True)
        self.context.link("", found.get("webViewLink") or f"https://drive.google.com/file/d/{found['id']}/view")

    def _archive(self, path: Path) -> None:
        """Pack the session's files into `path`. Special files and the archive itself are left out."""
        path.parent.mkdir(parents=True, exist_ok=True)
        seen = time.monotonic()
        with tarfile.open(path, "w:gz", dereference=True) as archive:
            for file in self._files(path):
                archive.add(file, f"{self._session.name}/{file.relative_to(self.context.session_dir)}", recursive=False)
                if time.monotonic() - seen > _SIGN_OF_LIFE_S:
                    seen = time.monotonic()
                    self.context.alive()

    def _files(self, archive: Path) -> Iterator[Path]:
        top = self.context.session_dir
        for file in files_below(top, top, left_out=_LEFT_OUT):
            if file != archive:
                yield file

    def _upload(self, archive: Path, unfinished: str | None, summary: Summary) -> dict[str, Any]:
        from googleapiclient.http import MediaFileUpload

        size = max(1, round(self.config.chunk_mb * 2**20 / _GRANULE)) * _GRANULE
        media = MediaFileUpload(str(archive), "application/gzip", chunksize=size, resumable=True)
        stamp = summary.ended_at.replace(":", "-")[:19]
        body: dict[str, Any] = {
            "name": f"{self._session.name}__{stamp}.tar.gz",
            "parents": [self.config.drive_folder_id],
        }
        if summary.findings:
            body["description"] = "\n".join(f"open regression: {one.line}" for one in summary.findings[:_MOST_FINDINGS])
        request = (
            self._drive().files().create(body=body, media_body=media, fields="id,webViewLink", supportsAllDrives=True)
        )
        if unfinished:
            request.resumable_uri = unfinished
            request._in_error_state = True  # the client then asks Drive first how much has arrived
        answer = None
        while answer is None:
            answer = self._next_piece(request)
            self.context.alive()
        return dict(answer)

    def _next_piece(self, request: Any) -> Any:
        """Send the next piece. Return the answer if the file is complete. After a failure Drive says where to go on."""
        from googleapiclient.errors import HttpError

        for pause_s in (*_PAUSES_S, None):
            try:
                _, answer = request.next_chunk()
            except (HttpError, OSError) as error:
                if pause_s is None or (isinstance(error, HttpError) and error.status_code < 500):
                    raise
                time.sleep(pause_s)
            else:
                if request.resumable_uri:
                    with self.context.state.changing() as state:
                        state["upload"] = request.resumable_uri
                return answer
        raise AssertionError("unreachable")

    def _drive(self) -> Any:
        from google.oauth2.service_account import Credentials
        from googleapiclient.discovery import build_from_document
        from googleapiclient.discovery_cache import get_static_doc

        path = self.context.matrix_dir / Path(self.config.service_account_file).expanduser()
        try:
            credentials = Credentials.from_service_account_file(str(path), scopes=_SCOPES)
        except (OSError, ValueError) as error:
            raise Refused(f"the service account's file {path} cannot be used: {error}") from error
        document = json.loads(get_static_doc("drive", "v3"))
        if self.config.api_url:
            document["rootUrl"] = self.config.api_url.rstrip("/") + "/"
            document["baseUrl"] = document["rootUrl"] + document["servicePath"]
        return build_from_document(document, credentials=credentials)


def _explained(error: Exception) -> Exception:
    """Turn Drive's final refusals into Refused, which is not tried again."""
    from googleapiclient.errors import HttpError

    if isinstance(error, HttpError) and error.status_code in (400, 401, 403, 404):
        return Refused(f"Google Drive refuses: {error.status_code} {error.reason}")
    return error
