"""What the real slack_sdk sends, checked by a stand-in for Slack against Slack's documented limits."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest
from end_to_end.conftest import Project
from sinks.conftest import Slack, tried_twice, wait_for
from sinks.test_seam import resend, undelivered

from curator_bench.measure.processes import busyness
from curator_bench.sinks.sink import Context
from curator_bench.sinks.slack import SlackConfig, SlackSink
from curator_bench.values import Session, Summary

TOKEN = "xoxb-1234-planted"
HANGS_S = 300


def sink(slack: Slack, **more: Any) -> dict[str, Any]:
    return {"name": "slack", "bot_token": TOKEN, "channel_id": "C1", "api_url": f"{slack.url}/api/", **more}


def texts(payload: dict[str, Any]) -> str:
    return "\n".join(
        text["text"] for block in payload["blocks"] for text in block.get("elements", [block.get("text")]) if text
    )


def test_one_message_is_updated_and_each_run_is_a_reply(project: Project, slack: Slack) -> None:
    metrics = '{"done_s": 3725, "size_bytes": 1610612736, "docs": 1234567, "m": 1}'
    project.matrix(
        project.entry("good", f"--metrics '{metrics}'", sink_data=[{"name": "slack", "additional_metrics": ["docs"]}]),
        project.entry(
            "bad",
            requirements=[{"metric": "m", "min_value": 5e9}],
            sink_data=[{"name": "slack", "ping_on_failure": ["U2"]}],
        ),
        sinks=[sink(slack, default_metrics=["done_s", "size_bytes"], ping_users_on_failure=["U1"])],
        viewer_url_template="http://viewer/{session_name_url}",
    )
    assert project.run("--benchmark").code == 1
    assert slack.problems == []
    (parent,), (good, bad) = slack.parents, slack.replies
    assert "http://viewer/s" in texts(parent)
    last = slack.of("chat.update")[-1]
    assert "2 of 2 runs: 1 passed, 1 failed" in texts(last)
    assert {reply["thread_ts"] for reply in slack.replies} == {last["ts"]}
    assert all(text in texts(good) for text in ("1 h 02 min", "1.50 GiB", "1,234,567"))
    assert "not met" in texts(bad)
    assert "m ≥ 5,000,000,000" in texts(bad)
    assert "<@U1> <@U2>" in texts(bad)
    assert "<@U1>" not in texts(good)
    assert "stdouterr.log" in texts(bad)
    assert slack.tokens == {f"Bearer {TOKEN}"}


def test_an_attempt_that_was_followed_by_another_pings_nobody_and_is_not_counted(
    project: Project, slack: Slack
) -> None:
    tried_twice(project, sinks=[sink(slack, ping_users_on_failure=["U1"])])
    assert project.run("--benchmark").code == 0
    assert ["attempt 1" in reply["text"] for reply in slack.replies] == [True, False]
    assert not any("<@U1>" in texts(reply) for reply in slack.replies)
    assert "1 of 1 runs: 1 passed" in texts(slack.of("chat.update")[-1])


def test_only_failures_and_warnings_are_replied_where_that_is_wanted(project: Project, slack: Slack) -> None:
    quiet = sink(slack, thread_replies_for_failures_or_warnings_only=True, ping_users_on_failure=["U1"])
    source = (project.folder / "script.py").read_text()
    project.write("odd.py", source.replace('"params.json").write_text', '"params").write_text'))
    project.matrix(
        project.entry("good"),
        project.entry("bad", "--exit 1", sink_data=[{"name": "slack", "ping_on_failure": False}]),
        {"name": "odd", "script": "odd.py"},
        sinks=[quiet],
    )
    project.run("--benchmark")
    bad, odd = slack.replies
    assert ("bad: crashed" in bad["text"], "<@U1>" in texts(bad)) == (True, False)
    assert "⚠ params.json was not written" in texts(odd)


@pytest.mark.parametrize(
    ("of_all", "mentioned"),
    [({}, "<@U2>"), ({"ping_users_on_failure": True}, "<@U2>"), ({"ping_users_on_failure": False}, "")],
    ids=["unsaid", "on", "off"],
)
def test_the_switch_of_a_nightly_turns_the_people_of_its_entries_on_and_off(
    project: Project, slack: Slack, of_all: dict[str, bool], mentioned: str
) -> None:
    named = [{"name": "slack", "ping_on_failure": ["U2"]}]
    project.matrix(
        project.entry("bad", "--exit 1", sink_data=named),
        sinks=[sink(slack, viewer_url="http://their.viewer/", **of_all)],
    )
    project.run("--benchmark")
    (reply,) = slack.replies
    assert ("<@" in texts(reply), mentioned in texts(reply)) == (bool(mentioned), True)
    assert "http://their.viewer/" in texts(slack.parents[0])


def test_the_keys_of_a_sink_are_checked_also_where_a_variable_that_is_not_set_turns_it_off(project: Project) -> None:
    project.matrix(
        project.entry("a"),
        sinks=[
            {"name": "slack", "channel_id": "${UNSET_CHANNEL}", "default_metric": ["m"]},
            {"name": "gdrive", "drive_folder_id": "${UNSET_FOLDER}", "chunk_mb": "many"},
            {"name": "./not_imported.py:Sink", "url": "${UNSET_URL}"},
        ],
    )
    outcome = project.run("--benchmark")
    assert outcome.code == 4
    assert outcome.has("2 mistakes in the benchmark matrix")
    assert outcome.has("sinks[slack].default_metric: unknown key; did you mean 'default_metrics'?")
    assert outcome.has("sinks[gdrive].chunk_mb: found 'many', expected a number")


@pytest.mark.parametrize("live", [True, False])
def test_the_message_is_updated_while_the_session_runs_where_that_is_wanted(
    tmp_path: Path, slack: Slack, live: bool
) -> None:
    ignored = lambda *given: None  # noqa: E731
    config = SlackConfig.model_validate({**sink(slack, live_updates=live), "name": None}, extra="ignore")
    told = SlackSink(config, Context("slack", tmp_path, tmp_path, ignored, ignored))
    told.start_session(Session("s", str(tmp_path), "i"))
    told.catch_up()
    told.end_session(Summary({}, "", "2026-01-23T14:30:00+00:00", 1.0, 0))
    assert len(slack.of("chat.update")) == (2 if live else 1)


def test_huge_results_stay_within_the_limits(project: Project, slack: Slack) -> None:
    names = [f"metric_with_a_long_name_{number}" for number in range(300)]
    script = f"metrics = {{name: 'x' * 4000 for name in {names!r}}}"
    source = project.folder.joinpath("script.py").read_text()
    project.write(
        "script.py",
        source.replace("results = options", f"{script}\nresults = options").replace("**options.metrics", "**metrics"),
    )
    project.matrix(project.entry("n" * 200), sinks=[sink(slack, default_metrics=names)])
    assert project.run("--benchmark").code == 0
    assert slack.problems == []
    assert len(slack.replies) == 1


def test_invocations_of_one_session_share_one_message(project: Project, slack: Slack) -> None:
    project.matrix(*(project.entry(name, "--sleep 1") for name in "ab"), sinks=[sink(slack)])
    together = [project.start("--benchmark", "--bench-entries", name) for name in "ab"]
    assert [project.outcome(process).code for process in together] == [0, 0]
    assert len(slack.parents) == 1
    assert len(slack.replies) == 2
    assert "2 of 2 runs: 2 passed" in texts(slack.of("chat.update")[-1])


def test_a_session_that_was_killed_is_no_success_and_is_one_when_it_was_gone_on_with(
    project: Project, slack: Slack
) -> None:
    def matrix(seconds: int) -> None:
        project.write("wait.py", f"import time; time.sleep({seconds})\n" + (project.folder / "script.py").read_text())
        waiting = {"name": "b", "script": "wait.py"}
        project.matrix(project.entry("a"), waiting, project.entry("c"), sinks=[sink(slack)])

    matrix(60)
    process = project.start("--benchmark", output=subprocess.DEVNULL)
    wait_for(lambda: slack.replies and (project.session_dir / "b" / "logs" / "stdouterr.log").exists())
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    wait_for(lambda: not project.processes())
    assert resend(project).returncode == 0
    killed = slack.of("chat.update")[-1]
    assert killed["text"] == "✋ s: 1 of 3 runs: 1 passed"
    assert "interrupted" in texts(killed)
    matrix(0)
    assert project.run("--benchmark", "--bench-resume").code == 0
    assert slack.of("chat.update")[-1]["text"] == "✅ s: 3 of 3 runs: 3 passed"


def test_a_pause_that_slack_asks_for_is_kept(project: Project, slack: Slack) -> None:
    slack.answers = [(429, {"Retry-After": "2"}, {"ok": False, "error": "ratelimited"}), (500, {}, "oh")]
    project.matrix(project.entry("a"), sinks=[sink(slack)])
    began = time.monotonic()
    assert project.run("--benchmark").code == 0
    assert time.monotonic() - began > 2
    assert len(slack.replies) == 1
    assert not undelivered(project)


def test_resend_does_not_wait_for_an_hour(project: Project, slack: Slack) -> None:
    slack.answers = [(429, {"Retry-After": "3600"}, {"ok": False, "error": "ratelimited"}) for _ in range(2)]
    project.matrix(project.entry("a"), sinks=[sink(slack)])
    assert project.run("--benchmark", "--bench-sink-grace", "1").code == 0
    assert "Slack asks for a pause of 1 h 00 min; resend the rest later" in resend(project).stdout
    assert resend(project).returncode == 0
    assert len(slack.replies) == 1


def test_a_slack_that_does_not_answer_delays_no_run_and_is_told_later(project: Project, slack: Slack) -> None:
    slack.silent_s = HANGS_S
    project.matrix(project.entry("a"), project.entry("b"), sinks=[sink(slack, call_timeout_s=1)])
    began = time.monotonic()
    outcome = project.run("--benchmark", "--bench-sink-grace", "5")
    assert outcome.code == 0
    assert time.monotonic() - began < min(HANGS_S, HANGS_S / 5 * busyness())
    assert (slack.calls, len(undelivered(project))) == ([], 1)
    assert outcome.has("3 of 3 messages not delivered (TimeoutError: ")
    slack.silent_s = 0
    assert resend(project).returncode == 0
    assert [reply["text"].split()[1] for reply in slack.replies] == ["a:", "b:"]


def test_a_slack_that_hangs_for_a_while_is_asked_again(project: Project, slack: Slack) -> None:
    slack.silent_s, slack.silent_calls = HANGS_S, 1
    project.matrix(project.entry("a", "--sleep 3"), sinks=[sink(slack, call_timeout_s=2)])
    outcome = project.run("--benchmark")
    assert outcome.has("delivered after: TimeoutError")
    assert [reply["text"].split()[1] for reply in slack.replies] == ["a:"]
    assert not undelivered(project)


def test_where_slack_is_slow_two_replies_are_under_way_and_none_comes_twice(project: Project, slack: Slack) -> None:
    names = "abcdef"
    slack.silent_s, slack.fails_once = 0.7, ["c: passed", "d: passed"]
    project.matrix(*(project.entry(name) for name in names), sinks=[sink(slack)])
    assert project.run("--benchmark").code == 0
    assert slack.most_at_once == 2
    assert len(slack.of("chat.update")) <= 3
    assert sorted(reply["text"].split()[1] for reply in slack.replies) == [f"{name}:" for name in names]
    assert "6 of 6 runs: 6 passed" in texts(slack.of("chat.update")[-1])
    assert not undelivered(project)


def test_what_slack_refuses_is_not_tried_again(project: Project, slack: Slack) -> None:
    slack.answers = [(200, {}, {"ok": False, "error": "channel_not_found"})]
    project.matrix(project.entry("a"), sinks=[sink(slack)])
    outcome = project.run("--benchmark")
    assert outcome.code == 0
    assert outcome.has("Slack refuses: channel_not_found")
    assert slack.calls == []
    assert undelivered(project)
    assert resend(project).returncode == 0
    assert len(slack.replies) == 1


def test_a_webhook_is_enough(project: Project, slack: Slack) -> None:
    project.matrix(project.entry("a"), sinks=[{"name": "slack", "webhook_url": "${MY_WEBHOOK}"}])
    assert project.run("--benchmark", MY_WEBHOOK=f"{slack.url}/services/T0/B0/plantedsecret").code == 0
    assert slack.problems == []
    assert ["a: passed" in payload["text"] for payload in slack.of("hook")] == [False, True, False]


@pytest.mark.parametrize("spelling", ["webhook_env", "variables"])
def test_older_spellings_and_variables_say_where_slack_is(project: Project, slack: Slack, spelling: str) -> None:
    hook = f"{slack.url}/services/T0/B0/plantedsecret"
    if spelling == "webhook_env":
        project.matrix(project.entry("a"), slack={"webhook_env": "MY_HOOK"})
        outcome = project.run("--benchmark", MY_HOOK=hook)
    else:
        project.matrix(project.entry("a"))
        outcome = project.run("--bench-sink", "slack", SLACK_WEBHOOK_URL=hook)
    assert outcome.code == 0
    assert len(slack.of("hook")) == 3
