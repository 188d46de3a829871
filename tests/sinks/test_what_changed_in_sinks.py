"""What changed where a metric got worse reaches the people who read reports of runs."""

from __future__ import annotations

import dataclasses

from curator_bench.sinks import github, mlflow_values, slack_blocks
from curator_bench.values import RunRecord, Session, Summary, Verdict

CHANGED = ("packages: numpy 1.26.4 → 2.0.1", "code:", "  +```", "  +<b>")
SESSION = Session("nightly", "/results/nightly")
SUMMARY = Summary({"failed": 1}, "2026-01-01T00:00:00+00:00", "2026-01-01T00:01:00+00:00", 60.0)
WORSE = RunRecord(
    name="sort",
    nodeid="m.yaml::sort",
    verdict=Verdict.FAILED,
    changed=CHANGED,
    ended_at=SUMMARY.ended_at,
    started_at=SUMMARY.started_at,
)
AS_BEFORE = dataclasses.replace(WORSE, changed=())


def test_the_summary_on_github_has_it_folded_and_nothing_in_it_ends_the_block() -> None:
    text = github.markdown(SESSION, [WORSE, AS_BEFORE], SUMMARY, [])
    assert text.count("<summary>What changed: sort</summary>") == 1
    block = text.partition("````\n")[2].partition("\n````")[0]
    assert block.split("\n") == list(CHANGED)


def test_slack_has_it_in_the_reply_to_the_run() -> None:
    sections = [str(block) for block in slack_blocks.reply(WORSE, [], [])["blocks"]]
    (told,) = [one for one in sections if "what changed" in one]
    assert "numpy 1.26.4 → 2.0.1" in told
    assert "<b>" not in told
    assert not any("what changed" in str(block) for block in slack_blocks.reply(AS_BEFORE, [], [])["blocks"])


def test_mlflow_has_it_as_a_tag() -> None:
    assert mlflow_values.logged(WORSE, SESSION).tags["what_changed"] == "\n".join(CHANGED)
