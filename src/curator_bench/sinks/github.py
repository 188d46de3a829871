"""The GitHub Actions sink: a Markdown summary of the job, and an annotation for each run that did not pass."""

from __future__ import annotations

import os
from collections import Counter, defaultdict
from collections.abc import Sequence
from pathlib import Path

from pydantic import Field

from curator_bench.files.locking import lock
from curator_bench.files.planted import refuse_planted_on_the_way
from curator_bench.sinks.sink import Context, Sink, SinkConfig
from curator_bench.values import RunRecord, Session, Summary, Verdict
from curator_bench.words import check_line, code_block, markdown_cell, readable, readable_seconds

_MARKS = {Verdict.PASSED: "✅", Verdict.SKIPPED: "⏭"}
_MOST_ROWS = 500
_MOST_METRICS = 4
_MOST_FINDINGS = 20
_LARGEST = 1_000_000
"""The longest summary in bytes: GitHub takes at most a mebibyte."""


class GithubConfig(SinkConfig):
    """The block `{name: github, …}`."""

    step_summary: str = Field(
        default_factory=lambda: os.environ.get("GITHUB_STEP_SUMMARY", ""),
        description="The file of the summary; default: GITHUB_STEP_SUMMARY.",
    )
    default_metrics: list[str] = Field(default_factory=lambda: ["exec_time_s"], description="Shown of every run.")
    annotations: bool = Field(True, description="Annotate runs that did not pass.")

    def lacks(self) -> str:
        if self.step_summary or (self.annotations and _is_in_actions()):
            return ""
        return "step_summary, or the variable GITHUB_STEP_SUMMARY, which GitHub Actions sets"


class GithubSink(Sink[GithubConfig]):
    """Writes the job summary, and prints annotations. Outside of GitHub Actions only the summary is written."""

    config_model = GithubConfig
    _session: Session

    def __init__(self, config: GithubConfig, context: Context) -> None:
        super().__init__(config, context)
        self._results: dict[str, RunRecord] = {}

    def start_session(self, session: Session) -> None:
        self._session = session

    def run_finished(self, result: RunRecord) -> None:
        self._results[result.nodeid] = result

    def end_session(self, summary: Summary) -> None:
        results = list(self._results.values())
        if self.config.annotations and _is_in_actions():
            for result in results:
                if result.verdict not in (Verdict.PASSED, Verdict.SKIPPED) or result.inconclusive:
                    self.context.say(annotation(result))
        if self.config.step_summary:
            refuse_planted_on_the_way(Path(self.config.step_summary))
            with Path(self.config.step_summary).open("a", encoding="utf-8") as file:
                lock(file)
                file.write(_cut(markdown(self._session, results, summary, self.config.default_metrics)))


def _is_in_actions() -> bool:
    return os.environ.get("GITHUB_ACTIONS") == "true"


def annotation(result: RunRecord) -> str:
    """Return a workflow command for a run, with special characters escaped."""
    why = _why(result)
    kind = "warning" if result.passed else "error"
    file = result.nodeid.partition("::")[0]
    title = f"{result.name}: {result.verdict}"
    return f"::{kind} file={_property(file)},title={_property(title)}::{_data(why or title)}"


def markdown(session: Session, results: list[RunRecord], summary: Summary, metrics: list[str]) -> str:
    counts = Counter(str(result.verdict) for result in results)
    if inconclusive := sum(bool(result.inconclusive) for result in results):
        counts["inconclusive"] = inconclusive
    said = ", ".join(f"{count} {verdict}" for verdict, count in counts.items())
    lines = [f"## Benchmarks: {said or 'no runs'}", "", f"`{session.name}`, {readable_seconds(summary.duration_s)}"]
    if session.viewer_url:
        lines.append(f"[results]({session.viewer_url})")
    lines += ["", "| entry | verdict | time | metrics | why |", "|---|---|---|---|---|"]
    lines += [_row(result, metrics) for result in results[:_MOST_ROWS]]
    if len(results) > _MOST_ROWS:
        lines += ["", f"… and {len(results) - _MOST_ROWS} more"]
    lines += _findings(summary)
    for changed, names in _by_change(results[:_MOST_ROWS]).items():
        lines += _folded(f"What changed: {', '.join(names)}", changed)
    return "\n".join([*lines, "", ""])


def _row(result: RunRecord, metrics: list[str]) -> str:
    wanted = [*metrics, *(check.metric for check in result.requirements)]
    shown = [name for name in dict.fromkeys(wanted) if name in result.metrics][:_MOST_METRICS]
    figures = ", ".join(f"{name} = {readable(name, result.metrics[name])}" for name in shown)
    mark = "⚠" if result.passed and result.inconclusive else _MARKS.get(result.verdict, "❌")
    cells = (
        result.name,
        f"{mark} {result.verdict}",
        readable_seconds(result.duration_s),
        figures,
        _why(result),
    )
    return "| " + " | ".join(_cell(cell) for cell in cells) + " |"


def _findings(summary: Summary) -> list[str]:
    """Return the open findings, each with what changed, folded."""
    found = summary.findings[:_MOST_FINDINGS]
    lines = ["", "### Open regressions"] if found else []
    for one in found:
        lines += _folded(one.line, one.changed)
    more = len(summary.findings) - len(found)
    return [*lines, *(["", f"… and {more} more"] if more else [])]


def _by_change(results: list[RunRecord]) -> dict[tuple[str, ...], list[str]]:
    """Return the entries that got worse by what changed there, which is the same for all of one cause."""
    found: dict[tuple[str, ...], list[str]] = defaultdict(list)
    for result in results:
        if result.changed:
            found[result.changed].append(result.name)
    return found


def _folded(title: str, lines: Sequence[str]) -> list[str]:
    head = f"<details><summary>{markdown_cell(title)}</summary>"
    return ["", head, "", *code_block(lines), "", "</details>"]


def _why(result: RunRecord) -> str:
    """Return the unmet and inconclusive requirements of a run, or else its error, and what disturbed it."""
    why = "; ".join(map(check_line, (*result.unmet, *result.inconclusive))) or result.error
    return "; ".join(filter(None, [why, f"disturbed: {result.disturbed}" if result.disturbed else ""]))


def _cell(text: str) -> str:
    return " ".join(text.replace("|", "\\|").replace("<", "&lt;").split())[:300]


def _cut(text: str) -> str:
    return text.encode()[:_LARGEST].decode("utf-8", "ignore")


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")
