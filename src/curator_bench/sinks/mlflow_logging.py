"""Logs into MLflow with its client. Runs in the child process of the MLflow sink.

The ids of MLflow runs are kept in the session's folder, so that another invocation, another child or `resend` continues
the same runs. A message that is delivered twice is logged into the same run.
"""

from __future__ import annotations

import socket
import tempfile
import urllib.request
import uuid
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit, urlunsplit

from curator_bench.files import safe_files
from curator_bench.files.codec import to_document
from curator_bench.sinks.masked_files import copy_masked
from curator_bench.sinks.mlflow import MlflowConfig
from curator_bench.sinks.mlflow_values import (
    Logged,
    Point,
    logged,
    logged_repeat,
    milliseconds,
    session_tags,
    status_of,
    time_series,
)
from curator_bench.sinks.sink import Refused, Sink
from curator_bench.sinks.state import keep_newest
from curator_bench.values import Repeat, Run, RunRecord, Session, Summary, Verdict

if TYPE_CHECKING:
    from mlflow import MlflowClient
    from mlflow.entities import Run as MlflowRun

_KEY = "curator_bench.key"
"""The tag with the key by which we find a run again."""
_PARENT = ""
"""The key of the session's own run."""
_CONNECT_S = 5
_METRICS_AT_ONCE = 800
_TAGS_AT_ONCE = 90
_AT_ONCE = 8
_FINAL = (400, 401, 403, 404)
_MEBIBYTE = 2**20
_MOST_FINDINGS = 20
"""The most findings that get a tag of the session; its artifact has all."""


class MlflowLogging(Sink[MlflowConfig]):
    config_model = MlflowConfig
    _session: Session
    _experiment: str

    def start_session(self, session: Session) -> None:
        self._check_server()
        with _explained(), self.context.state.alone():  # one invocation makes the parent run, the others find it
            self._session = session
            self._experiment = self._find_experiment()
            tags = {**session_tags(session), **self.config.tags, "curator_bench.session": session.directory}
            self._ensure_run(_PARENT, session.name, milliseconds(session.started_at), tags)
            self.client.update_run(self._made(_PARENT), status="RUNNING")
            self._tell_link(_PARENT, self._made(_PARENT))

    def run_started(self, run: Run) -> None:
        with _explained():
            tags = {"nodeid": run.nodeid, "entry": run.entry, **session_tags(self._session), **self.config.tags}
            self._ensure_run(self._live_key(run.nodeid), run.name, milliseconds(run.started_at), self._child(tags))

    def run_finished(self, result: RunRecord) -> None:
        with _explained():
            found = logged(result, self._session)
            run = self._run_of(result)
            with ThreadPoolExecutor(_AT_ONCE) as together:
                work = [together.submit(self._log, run, found, self._series(result))]
                work += [together.submit(self._upload, run, path) for path in self._files(result)]
                work += [together.submit(self._log_repeat, run, result, index) for index in self._repeats(result)]
                for done in work:
                    done.result()
                    self.context.alive()  # a slow server may need longer for all answers together than a call may take
            for name, text in found.long_texts.items():
                self.client.log_text(run, text, f"full/{name}.txt")
            self.client.set_terminated(run, status_of(result.verdict), milliseconds(result.ended_at))
            if result.is_last:
                with self.context.state.changing() as state:
                    keep_newest(state, result, str(result.verdict))
            self._tell_link(result.uid, run)

    def runs_finished(self, results: Sequence[RunRecord]) -> None:
        """Log several runs in parallel. One after the other, a slow server could not keep up with the benchmarks."""
        with ThreadPoolExecutor(_AT_ONCE) as together:
            work = [together.submit(self.run_finished, result) for result in results]
        for done in work:
            done.result()

    def end_session(self, summary: Summary) -> None:
        with _explained():
            run = self._made(_PARENT)
            self._end_what_runs(summary)
            counts = Counter(self.context.state.read().get("verdicts", {}).values())
            now = milliseconds(summary.ended_at)
            found = Logged(tags={f"runs.{verdict}": str(count) for verdict, count in counts.items()})
            found.metrics = [Point(f"runs_{verdict}", count, now) for verdict, count in counts.items()]
            found.metrics.append(Point("duration_s", summary.duration_s, now))
            found.metrics.append(Point("open_regressions", len(summary.findings), now))
            found.tags |= {f"open_regression.{one.name}": one.line for one in summary.findings[:_MOST_FINDINGS]}
            self._log(run, found, ())
            if summary.findings:
                self.client.log_dict(run, {"findings": to_document(summary)["findings"]}, "open_regressions.json")
            with ThreadPoolExecutor(_AT_ONCE) as together:
                list(together.map(lambda path: self._upload(run, path), self._session_files()))
            self._remove_what_was_made_twice()
            self.client.set_terminated(run, _status(counts, summary), now)

    @cached_property
    def client(self) -> MlflowClient:
        """The client for the server. MLflow is imported when it is first used."""
        import mlflow

        return mlflow.MlflowClient(self.config.tracking_uri)

    def _check_server(self) -> None:
        """Raise ConnectionError if the server cannot be reached, before MLflow is imported. A proxy is not checked."""
        server = urlsplit(self.config.tracking_uri)
        if server.scheme not in ("http", "https") or server.scheme in urllib.request.getproxies():
            return
        address = (server.hostname or "", server.port or (443 if server.scheme == "https" else 80))
        try:
            socket.create_connection(address, _CONNECT_S).close()
        except OSError as error:
            raise ConnectionError(f"{address[0]}:{address[1]} cannot be reached: {error}") from None

    def _find_experiment(self) -> str:
        from mlflow.exceptions import MlflowException

        name = self.config.experiment
        found = self.client.get_experiment_by_name(name)
        if found is None:
            try:
                return str(self.client.create_experiment(name))
            except MlflowException:  # another invocation was faster
                found = self.client.get_experiment_by_name(name)
        if found is None or found.lifecycle_stage != "active":
            raise Refused(f"the experiment {name!r} was deleted; restore it or name another")
        return str(found.experiment_id)

    def _made(self, key: str) -> str:
        return str(self.context.state.read()["runs"][key])

    def _live_key(self, nodeid: str) -> str:
        """Return the key of a run that is still running, whose uid is not known yet."""
        return f"{self._session.invocation} {nodeid}"

    def _child(self, tags: Mapping[str, str]) -> dict[str, str]:
        return {**tags, "mlflow.parentRunId": self._made(_PARENT)}

    def _ensure_run(self, key: str, name: str, start_ms: int, tags: Mapping[str, str]) -> str:
        """Return the MLflow run with this key; make it if it does not exist.

        The key is noted before the run is made. If the process is killed in between, the run is found by its tag.
        """
        with self.context.state.changing() as state:
            runs, half_made = state.setdefault("runs", {}), state.setdefault("half_made", [])
            if key in runs:
                return str(runs[key])
            was_half_made = key in half_made
        if was_half_made and (found := self._search(key)):
            run = found
        else:
            with self.context.state.changing() as state:
                state.setdefault("half_made", []).append(key)
            own = {**tags, _KEY: self._tag_of(key)}
            run = self.client.create_run(self._experiment, start_ms, own, name).info.run_id
        with self.context.state.changing() as state:
            state["half_made"] = [other for other in state.get("half_made", []) if other != key]
            return str(state.setdefault("runs", {}).setdefault(key, run))

    def _tag_of(self, key: str) -> str:
        """Return the tag value of a key. No other session has it, even if it had the same name and folder."""
        if not (own := self.context.state.read().get("own")):
            with self.context.state.changing() as state:
                own = state.setdefault("own", uuid.uuid4().hex)
        return f"{own} {key}".replace("'", "_").replace('"', "_")

    def _search(self, key: str) -> str | None:
        found = self._unfinished(f"= '{self._tag_of(key)}'")
        return found[0].info.run_id if found else None

    def _unfinished(self, condition: str) -> list[MlflowRun]:
        """Return MLflow runs of ours that are still running and whose key matches the condition."""
        query = f"attributes.status = 'RUNNING' and tags.`{_KEY}` {condition}"
        return list(self.client.search_runs([self._experiment], query))

    def _remove_what_was_made_twice(self) -> None:
        """Delete duplicate runs.

        If an answer comes too late, the request is repeated, and the server may make the run again.
        """
        prefix = self._tag_of("")
        try:
            with _explained():
                found = self._unfinished(f"LIKE '{prefix}%'")
                state = self.context.state.read()
                known, half_made = set(state["runs"].values()), {self._tag_of(key) for key in state["half_made"]}
                for run in found:
                    if run.info.run_id not in known and run.data.tags[_KEY] not in half_made:
                        self._delete(run.info.run_id)
        except Refused as refusal:
            self.context.say(f"mlflow: a run without content may be left: {refusal}")

    def _delete(self, run: str) -> None:
        """Delete a run, unless another invocation has ended it in the meantime and so uses it."""
        if self.client.get_run(run).info.status == "RUNNING":
            self.client.delete_run(run)

    def _run_of(self, result: RunRecord) -> str:
        """Return the MLflow run of a result. The run made at the start is used for the last result of an entry."""
        key, live = result.uid or result.nodeid, self._live_key(result.nodeid)
        with self.context.state.changing() as state:
            runs = state.setdefault("runs", {})
            if live in runs and result.is_last:
                runs.setdefault(key, runs.pop(live))
        return self._ensure_run(
            key, result.title, milliseconds(result.started_at), self._child({"nodeid": result.nodeid})
        )

    def _log(self, run: str, found: Logged, series: Iterable[Point]) -> None:
        from mlflow.entities import Metric, Param, RunTag

        tags = [RunTag(name, value) for name, value in {**found.tags, **self.config.tags}.items()]
        params = [Param(name, value) for name, value in found.params.items()]
        metrics = [Metric(point.name, point.value, point.at_ms, point.step) for point in (*found.metrics, *series)]
        while tags or params or metrics:
            self.client.log_batch(
                run, metrics[:_METRICS_AT_ONCE], params[:_TAGS_AT_ONCE], tags[:_TAGS_AT_ONCE], synchronous=True
            )
            metrics, params, tags = metrics[_METRICS_AT_ONCE:], params[_TAGS_AT_ONCE:], tags[_TAGS_AT_ONCE:]

    def _series(self, result: RunRecord) -> Iterable[Point]:
        return time_series(result.folder) if self.config.system_metrics and result.directory else ()

    def _repeats(self, result: RunRecord) -> range:
        return range(len(result.repeats)) if len(result.repeats) > 1 else range(0)

    def _log_repeat(self, run: str, result: RunRecord, index: int) -> None:
        """Log a repeat as a run nested below the run."""
        repeat, ended = result.repeats[index], milliseconds(result.ended_at)
        key = f"{result.uid or result.nodeid} repeat {repeat.index}"
        tags = {**session_tags(self._session), **self.config.tags, "entry": result.entry, "repeat": str(repeat.index)}
        tags |= {"mlflow.parentRunId": run, "exit_code": str(repeat.exit_code)}
        ended -= _milliseconds_of(result.repeats[index + 1 :])  # repeats run one after the other
        started = ended - _milliseconds_of([repeat])
        made = self._ensure_run(key, f"{result.title} repeat {repeat.index}", started, tags)
        self._log(made, logged_repeat({"exec_time_s": repeat.exec_time_s, **repeat.metrics}, ended), ())
        self.client.set_terminated(made, "FAILED" if repeat.exit_code else "FINISHED", ended)

    def _files(self, result: RunRecord) -> Iterator[Path]:
        names = ("command.txt", "gpustats.csv", "memory.csv") if result.directory else ()
        paths = [result.folder / name for name in names]
        paths += [Path(result.directory, "results.json")] if result.directory and result.is_last else []
        paths += [Path(result.log_path)] if result.log_path else []
        yield from (path for path in paths if self.config.artifacts and safe_files.is_file(path))

    def _session_files(self) -> Iterator[Path]:
        """Yield the environment of each machine, the packages, the summary."""
        if self.config.artifacts:
            folder = self.context.session_dir
            yield from sorted(path for path in (folder / "env").glob("[!.]*") if safe_files.is_file(path))
            yield from (path for name in ("packages.txt", "summary.json") if safe_files.is_file(path := folder / name))

    def _upload(self, run: str, path: Path) -> None:
        """Upload a masked copy of a file.

        A log that is too large loses its beginning. Another file that is too large is left out.
        """
        most = int(self.config.max_artifact_mb * _MEBIBYTE)
        name = "env.json" if path.parent.name == "env" and path.stem == socket.gethostname() else path.name
        if path.stat().st_size > most and path.suffix != ".log":
            self.client.set_tag(run, f"left_out.{name}", f"larger than max_artifact_mb ({path.stat().st_size} bytes)")
            return
        with tempfile.TemporaryDirectory() as folder:
            copy = Path(folder, name)
            copy_masked(path, copy, self.context.mask, most)
            self.client.log_artifact(run, str(copy))

    def _end_what_runs(self, summary: Summary) -> None:
        """Mark runs of this invocation without a result as killed."""
        prefix = self._live_key("")
        for key, run in self.context.state.read().get("runs", {}).items():
            if key.startswith(prefix):
                self.client.set_terminated(str(run), "KILLED", milliseconds(summary.ended_at))
        with self.context.state.changing() as state:
            state["runs"] = {key: run for key, run in state["runs"].items() if not key.startswith(prefix)}
            state["half_made"] = [key for key in state.get("half_made", ()) if not key.startswith(prefix)]

    def _tell_link(self, uid: str, run: str) -> None:
        server = urlsplit(self.config.tracking_uri)
        if server.scheme in ("http", "https"):
            host = server.netloc.rpartition("@")[2]
            page = f"/experiments/{self._experiment}/runs/{run}"
            self.context.link(uid, urlunsplit((server.scheme, host, f"{server.path.rstrip('/')}/", "", page)))


def _milliseconds_of(repeats: Sequence[Repeat]) -> int:
    return round(sum(repeat.exec_time_s for repeat in repeats) * 1000)


def _status(counts: Mapping[str, int], summary: Summary) -> str:
    if summary.interrupted or counts.get(Verdict.INTERRUPTED):
        return "KILLED"
    return "FINISHED" if set(counts) <= {Verdict.PASSED, Verdict.SKIPPED} else "FAILED"


@contextmanager
def _explained() -> Iterator[None]:
    """Turn MLflow's final refusals into Refused, which is not tried again."""
    from mlflow.exceptions import MlflowException

    try:
        yield
    except MlflowException as error:
        if error.get_http_status_code() in _FINAL:
            raise Refused(f"MLflow refuses: {error}") from error
        raise
