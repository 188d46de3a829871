"""Slack messages in Block Kit, within its limits, with a text for clients that show no blocks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

from curator_bench.values import Check, OpenFinding, RunRecord, Session, Summary, Verdict
from curator_bench.words import bound_of, readable, readable_seconds

MOST_BLOCKS = 50
LONGEST_SECTION = 3000
LONGEST_HEADER = 150
LONGEST_TEXT = 3000
_MOST_RUNNING = 5
_MOST_FAILED = 15
_MOST_FINDINGS = 10
_MARKS = {Verdict.PASSED: "✅", Verdict.SKIPPED: "⏭", Verdict.INTERRUPTED: "✋"}
_WIDEST_NAME = 40
_WIDEST_VALUE = 60


def parent(session: Session, state: Mapping[str, Any], summary: Summary | None = None) -> dict[str, Any]:
    """Return the message of a session: its runs by verdict, over all its invocations."""
    verdicts = state.get("verdicts", {}).values()
    counts = Counter(verdict for _, verdict, *_ in verdicts)
    inconclusive = sum(isinstance(gates, int) and gates > 0 for _, _, gates, *_ in verdicts)
    running = [name for names in state.get("open", {}).values() for name in names.values()]
    is_over = summary is not None and not state.get("open")
    line = _counts(counts, len(running), sum(state.get("expected", {}).values()))
    is_cut_short = summary is not None and is_over and (summary.interrupted or bool(counts.get(Verdict.INTERRUPTED)))
    title = f"{_status_icon(counts, is_over, is_cut_short)} {session.name}"
    seconds = _seconds_since(state.get("started_at") or session.started_at, summary)
    lines = [f"*{line}*" + (f" · {readable_seconds(seconds)}" if seconds is not None else "")]
    if is_cut_short:
        lines.append("interrupted")
    if inconclusive:
        lines.append(f"⚠ {inconclusive} with gates that are inconclusive")
    if running:
        lines.append(
            f"running: {escaped(', '.join(running[:_MOST_RUNNING]))}{' …' if len(running) > _MOST_RUNNING else ''}"
        )
    failed = [f"{_mark(verdict)} {name}: {verdict}" for name, verdict, *_ in verdicts if verdict not in _MARKS]
    lines += [escaped(one) for one in failed[:_MOST_FAILED]]
    if len(failed) > _MOST_FAILED:
        lines.append(f"… and {len(failed) - _MOST_FAILED} more")
    found = [_header(title), _section("\n".join(lines)), *_open(summary), *_context(_about(session))]
    return _message(escaped(f"{title}: {line}"), found)


def _open(summary: Summary | None) -> list[dict[str, Any]]:
    """Return the open findings, one line each."""
    findings = summary.findings if summary else ()
    if not findings:
        return []
    lines = [f"🔴 {escaped(one.line)}" for one in findings[:_MOST_FINDINGS]]
    more = [f"… and {len(findings) - _MOST_FINDINGS} more"] if len(findings) > _MOST_FINDINGS else []
    return [_section("\n".join(["*open regressions*", *lines, *more]))]


def finding(one: OpenFinding) -> dict[str, Any]:
    """Return the message of an open finding: all that it explains, and what changed there."""
    title = escaped(f"🔴 open regression: {one.line}")
    found = [_section(f"*{title}*"), *_changed(one.changed)]
    if len(one.entries) > 1 or len(one.metrics) > 1:
        explained = (("entries", one.entries), ("metrics", one.metrics))
        found += _context([escaped(f"{what}: {', '.join(names)}") for what, names in explained])
    return _message(title, found)


def reply(result: RunRecord, metrics: Iterable[str], pinged: Iterable[str]) -> dict[str, Any]:
    """Return the reply of a run: metrics, unmet requirements, warnings, the path of its log."""
    title = f"{_mark(result.verdict)} {result.title}: {result.verdict} in {readable_seconds(result.duration_s)}"
    rows = [(name, readable(name, result.metrics[name])) for name in metrics if name in result.metrics]
    found = [_section(f"*{escaped(title)}*")]
    if users := " ".join(_mention(user) for user in pinged):
        found.append(_section(users))
    if rows:
        found.append(_section(_table(rows)))
    unmet = [(f"{one.metric} {_bound(one)}", _actual(one)) for one in result.unmet]
    if unmet:
        found.append(_section("*not met*\n" + _table(unmet)))
    if result.inconclusive:
        rows = [(f"{one.metric} {_bound(one)}", f"{_actual(one)}; {one.note}") for one in result.inconclusive]
        found.append(_section("*inconclusive*\n" + _table(rows)))
    found += _changed(result.changed)
    if result.error and not result.unmet:
        found.append(_section(f"```{_cut(escaped(result.error), 1000)}```"))
    if result.warnings:
        found.append(_section("\n".join(f"⚠ {escaped(warning)}" for warning in result.warnings[:10])))
    if path := result.shown_log_path or result.log_path:
        found += _context([f"log: `{escaped(path)}`"])
    return _message(f"{escaped(title)} {users}".strip(), found)


def _changed(lines: Sequence[str]) -> list[dict[str, Any]]:
    changed = _cut(escaped("\n".join(lines)), LONGEST_SECTION - 100)
    return [_section(f"*what changed*\n```{changed}```")] if lines else []


def escaped(text: str) -> str:
    """Escape Slack's three control characters, and the end of a code block."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;").replace("```", "'''")


_BOUNDS = {"min_value": "≥", "max_value": "≤", "exact_value": "="}


def _bound(check: Check) -> str:
    _, limit = bound_of(check).split(" ", 1)
    return f"{_BOUNDS.get(check.bound, check.bound)} {limit}"


def _actual(check: Check) -> str:
    actual = "missing" if check.missing else readable(check.metric, check.actual)
    return f"{actual}: {check.says}" if check.says and check.says != "inconclusive" else actual


def _status_icon(counts: Mapping[str, int], is_over: bool, is_cut_short: bool) -> str:
    if set(counts) - set(map(str, _MARKS)):
        return "❌"
    return "✋" if is_cut_short else "✅" if is_over else "⏳"


def _mark(verdict: str) -> str:
    return _MARKS.get(Verdict(verdict), "❌")


def _counts(counts: Mapping[str, int], running: int, expected: int) -> str:
    done = sum(counts.values())
    parts = [f"{counts[verdict]:,} {verdict}" for verdict in map(str, Verdict) if counts.get(verdict)]
    parts += [f"{running:,} running"] if running else []
    return f"{done:,} of {max(expected, done):,} runs: {', '.join(parts)}" if parts else f"{expected:,} runs"


def _seconds_since(started_at: str, summary: Summary | None) -> float | None:
    if not started_at:
        return None
    began = datetime.fromisoformat(started_at)
    now = datetime.fromisoformat(summary.ended_at) if summary else datetime.now(began.tzinfo)
    return max(0.0, (now - began).total_seconds())


def _about(session: Session) -> list[str]:
    found = []
    if session.viewer_url:
        found.append(f"<{_in_link(session.viewer_url)}|results>")
    if session.ci_run_url:
        found.append(f"<{_in_link(session.ci_run_url)}|job>")
    if session.commit:
        found.append(f"commit `{session.commit[:10]}` {escaped(session.branch)}".strip())
    found += [f"{one.package} {one.version}" for one in session.subjects if one.version]
    found += [escaped(text) for text in (session.reason, session.host) if text]
    return found


def _in_link(url: str) -> str:
    return escaped(url).replace("|", "%7C").replace(" ", "%20")


def _mention(user: str) -> str:
    user = escaped(user)
    if user in ("here", "channel", "everyone"):
        return f"<!{user}>"
    return f"<!subteam^{user}>" if user.startswith("S") else f"<@{user.lstrip('@')}>"


def _table(rows: list[tuple[str, str]]) -> str:
    """Format rows in a fixed-width block. Rows that do not fit are cut off."""
    width = max(len(_cut(name, _WIDEST_NAME)) for name, _ in rows)
    lines = [f"{_cut(name, _WIDEST_NAME).ljust(width)}  {_cut(value, _WIDEST_VALUE)}" for name, value in rows]
    text = ""
    for line in lines:
        if len(text) + len(escaped(line)) > LONGEST_SECTION - 100:
            text += "…"
            break
        text += escaped(line) + "\n"
    return f"```{text.rstrip()}```"


def _header(text: str) -> dict[str, Any]:
    return {"type": "header", "text": {"type": "plain_text", "text": _cut(text, LONGEST_HEADER), "emoji": True}}


def _section(text: str) -> dict[str, Any]:
    return {"type": "section", "text": {"type": "mrkdwn", "text": _cut(text, LONGEST_SECTION)}}


def _context(texts: list[str]) -> list[dict[str, Any]]:
    if not texts:
        return []
    return [{"type": "context", "elements": [{"type": "mrkdwn", "text": _cut(" · ".join(texts), LONGEST_SECTION)}]}]


def _message(text: str, found: list[dict[str, Any]]) -> dict[str, Any]:
    return {"text": _cut(text, LONGEST_TEXT), "blocks": found[:MOST_BLOCKS]}


def _cut(text: str, longest: int) -> str:
    return text if len(text) <= longest else text[: longest - 1] + "…"
