"""Logs into Weights & Biases with its library. Runs in the child process of the W&B sink."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

from curator_bench.files import safe_files
from curator_bench.files.codec import to_document
from curator_bench.sinks.masked_files import copy_masked
from curator_bench.sinks.sink import Refused, Sink
from curator_bench.sinks.wandb import WandbConfig
from curator_bench.values import MACHINE, RunRecord, Scalar, Session, Summary, Verdict
from curator_bench.words import check_line

_MEBIBYTE = 2**20
_LONGEST_TAG = 64
_LONGEST_NAME = 128


class WandbLogging(Sink[WandbConfig]):
    config_model = WandbConfig
    _session: Session

    def start_session(self, session: Session) -> None:
        self._session = session

    def run_finished(self, result: RunRecord) -> None:
        run = self._open(result)
        try:
            for repeat in result.repeats if len(result.repeats) > 1 else ():
                run.log({f"repeat/{name}": value for name, value in _own(repeat.metrics)}, step=repeat.index)
            run.log({name: value for name, value in _own(result.metrics) if value is not None})
            run.summary.update({name: value for name, value in result.metrics.items() if name.startswith(MACHINE)})
            run.summary.update({"verdict": str(result.verdict), "error": result.error, "duration_s": result.duration_s})
            if result.disturbed:
                run.summary.update({"disturbed": result.disturbed})
            if self.config.artifacts:
                self._upload(run, result)
            if url := run.url:
                self.context.link(result.uid, url)
                self.context.link("", f"{url.partition('/runs/')[0]}/groups/{self._session.name}")
        finally:
            run.finish(0 if result.verdict in (Verdict.PASSED, Verdict.SKIPPED) else 1)

    def end_session(self, summary: Summary) -> None:
        """Log the open findings, if there are any, as one more run of the group."""
        if not summary.findings:
            return
        findings = [to_document(one) for one in summary.findings]
        run = self._init(
            summary.started_at,
            id=f"{self._session.invocation}-open",
            name="open regressions",
            job_type="open_regressions",
            notes="\n".join(one.line for one in summary.findings),
            tags=list(self.config.tags),
            config={"curator_bench": {"session": self._session.name, "open_regressions": findings}},
            resume="allow",
        )
        run.summary.update({"open_regressions": len(findings)})
        run.finish(0)

    def _open(self, result: RunRecord) -> Any:
        """Open the W&B run of a result. A result that is delivered twice goes to the same run, by its id."""
        return self._init(
            result.started_at,
            id=result.uid or None,
            name=result.title[:_LONGEST_NAME],
            job_type=result.entry[:_LONGEST_TAG],
            tags=[tag[:_LONGEST_TAG] for tag in (*result.marks, *self.config.tags)],
            config={**result.axes, **dict(result.params), "curator_bench": self._about(result)},
            resume="allow" if result.uid else None,
        )

    def _init(self, started_at: str, **more: Any) -> Any:
        """Open a run in the group of the session."""
        import wandb

        # Set the mode even where it is the default: without one, W&B goes on without a server after a slow login.
        mode: Any = self.config.mode or os.environ.get("WANDB_MODE") or "online"
        settings = wandb.Settings(x_start_time=datetime.fromisoformat(started_at).timestamp(), init_timeout=30)
        try:
            return wandb.init(
                project=self.config.project,
                entity=self.config.entity,
                dir=self.context.session_dir,
                group=self._session.name[:_LONGEST_NAME],
                mode=mode,
                reinit="create_new",
                settings=settings,
                **more,
            )
        except wandb.errors.UsageError as error:
            raise Refused(f"W&B refuses: {error}") from error

    def _about(self, result: RunRecord) -> dict[str, Any]:
        session = self._session
        return {
            "session": session.name,
            "nodeid": result.nodeid,
            "commit": session.commit,
            "branch": session.branch,
            "host": result.host or session.host,
            "reason": session.reason,
            "viewer_url": session.viewer_url,
            "attempt": result.attempt,
            "inconclusive": [check_line(one) for one in result.inconclusive],
            "what_changed": list(result.changed),
            "subjects": {subject.package: subject.version for subject in session.subjects},
        }

    def _upload(self, run: Any, result: RunRecord) -> None:
        import wandb

        paths = [Path(result.log_path)] if result.directory else []
        paths += [Path(result.directory, "results.json")] if result.directory and result.is_last else []
        paths = [path for path in paths if safe_files.is_file(path)]
        paths = [path for path in paths if path.stat().st_size <= self.config.max_artifact_mb * _MEBIBYTE]
        if paths:
            artifact = wandb.Artifact(f"run-{result.uid or run.id}", type="benchmark_results")
            with tempfile.TemporaryDirectory() as folder:
                for path in paths:
                    copy = Path(folder, path.name)
                    copy_masked(path, copy, self.context.mask, path.stat().st_size)
                    artifact.add_file(str(copy), name=path.name)
            run.log_artifact(artifact)


def _own(metrics: Mapping[str, Scalar]) -> Iterator[tuple[str, Scalar]]:
    """Yield the metrics that get a chart: not what the machine did, which stands in the summary."""
    return ((name, value) for name, value in metrics.items() if not name.startswith(MACHINE))
