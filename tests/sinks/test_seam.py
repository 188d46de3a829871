"""Sinks are told of what happens, and whatever they do, runs do not notice."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import warm
from end_to_end.conftest import Project
from sinks.conftest import told, tried_twice, wait_for

from curator_bench.masking import Mask
from curator_bench.measure.processes import busyness
from curator_bench.sinks import Sink, SinkConfig, journal
from curator_bench.sinks.delivery import Delivery
from curator_bench.sinks.sink import Context
from curator_bench.sinks.state import keep_newest
from curator_bench.values import RunRecord, Session, Verdict

pytestmark = pytest.mark.slow

SINK = {"name": "./my_sink.py:Recording"}


def resend(
    project: Project, *options: str, name: str = "results/s", **variables: str
) -> subprocess.CompletedProcess[str]:
    words = ["resend", name, *options]
    env = project.environment(**variables)
    return warm.run("curator-bench", *words, cwd=project.folder, env=env, stderr_apart=False)


def undelivered(project: Project) -> list[Path]:
    return sorted((project.session_dir / "undelivered").glob("*.jsonl"))


def test_a_sink_is_told_of_the_session_its_runs_and_its_end(project: Project) -> None:
    project.matrix(project.entry("a"), project.entry("b", "--exit 3"), sinks=[SINK])
    outcome = project.run("--benchmark")
    assert outcome.code == 1
    assert [line for line in told(project) if line[0] != "run_started"] == [
        ["start_session", "s"],
        ["run_finished", "a", "passed"],
        ["run_finished", "b", "crashed"],
        ["end_session", {"passed": 1, "crashed": 1}],
    ]
    assert not undelivered(project)


def test_sinks_are_told_by_the_controller_alone_on_a_thread_of_their_own(project: Project) -> None:
    project.matrix(*(project.entry(name) for name in "abcd"), sinks=[SINK])
    process = project.start("--benchmark", "-n", "2")
    outcome = project.outcome(process)
    assert outcome.code == 0
    lines = [json.loads(line) for line in (project.folder / "told.jsonl").read_text().splitlines()]
    assert {pid for pid, *_ in lines} == {process.pid}
    assert len({thread for _, thread, *_ in lines}) == 1
    assert "MainThread" not in {thread for _, thread, *_ in lines}
    assert sorted(line[3] for line in lines if line[2] == "run_finished") == ["a", "b", "c", "d"]


@pytest.mark.parametrize(
    ("options", "is_told"),
    [
        ((), False),
        (("--benchmark",), True),
        (("--bench-sink", "./my_sink.py:Recording"), True),
        (("--benchmark", "--bench-sink", "none"), False),
    ],
)
def test_sinks_work_with_benchmark_or_when_they_are_named(
    project: Project, options: tuple[str, ...], is_told: bool
) -> None:
    project.matrix(project.entry("a"), sinks=[SINK])
    assert project.run(*options).code == 0
    assert bool(told(project)) is is_told


def test_a_mistake_in_a_sinks_block_is_a_mistake_of_the_matrix(project: Project) -> None:
    project.write(
        "matrix.yaml",
        """\
        ray: false
        sinks:
          - name: mlflow
            tracking_ur: http://127.0.0.1:1
            tracking_uri: http://127.0.0.1:1
          - name: slak
          - name: slack
            webhook_url: hooks.slack.com/planted
            default_metrics: {a: 1}
          - name: "./my_sink.py:Recording"
            file: 5
          - name: "./a_script.py:Sink"
          - name: "./odd.py:Odd"
        entries:
          - {name: a, script: script.py, sink_data: [{name: slack, additional_metric: [x]}]}
        """,
    )
    project.write("odd.py", "from curator_bench.sinks import Sink\n\nclass Odd(Sink):\n    config_model = dict\n")
    project.write("a_script.py", "import argparse; argparse.ArgumentParser().error('no words')")
    outcome = project.run("--benchmark")
    assert outcome.code == 4
    assert outcome.has(
        "matrix.yaml:4: sinks[mlflow].tracking_ur: unknown key; did you mean 'tracking_uri'?",
        "matrix.yaml:6: sinks[slak].name: unknown sink 'slak'; did you mean 'slack'?",
        "matrix.yaml:8: sinks[slack].webhook_url: is not a URL that begins with https://",
        "matrix.yaml:9: sinks[slack].default_metrics: found a mapping, expected a list",
        "matrix.yaml:12: sinks[./a_script.py:Sink].name: the sink './a_script.py:Sink' cannot be loaded: SystemExit: 2",
        "matrix.yaml:13: sinks[./odd.py:Odd].name: the sink './odd.py:Odd' has <class 'dict'> as config_model",
        "matrix.yaml:15: entries[a].sink_data[slack].additional_metric: unknown key; did you mean",
    )


MISNAMED = """
    from curator_bench.sinks import Sink

    class Typo(Sink):
        def start_session(self, session): ...
        def run_finnished(self, result): ...

    class Hook(Sink):
        def onRunFinished(self, result): ...
        def session_end(self, summary): ...

    class Nothing(Sink):
        def report(self, result): ...

    class Waiting(Sink):
        async def run_finished(self, result): ...

    class Shorter(Sink):
        def run_finished(self): ...

    class Right(Sink):
        def run_finished(self, result, *more, also=None): ...
        def on_run_finished(self, result): ...
        def _run_startd(self): ...
"""


def test_a_sink_with_methods_that_nobody_would_call_is_a_mistake_of_the_matrix(project: Project) -> None:
    project.write("odd.py", MISNAMED)
    names = ["Typo", "Hook", "Nothing", "Waiting", "Shorter", "Right"]
    blocks = "".join(f'  - name: "./odd.py:{name}"\n' for name in names)
    project.write("matrix.yaml", f"ray: false\nsinks:\n{blocks}entries: [{{name: a, script: script.py}}]\n")
    outcome = project.run("--benchmark")
    assert outcome.code == 4
    assert outcome.has(
        "matrix.yaml:3: sinks[./odd.py:Typo].name: the sink './odd.py:Typo' has a method 'run_finnished', which is "
        "never called; did you mean 'run_finished'?",
        "matrix.yaml:4: sinks[./odd.py:Hook].name: the sink './odd.py:Hook' has a method 'onRunFinished', which",
        "matrix.yaml:5: sinks[./odd.py:Nothing].name: the sink './odd.py:Nothing' has none of the methods of "
        "sinks: start_session, run_started, run_finished, end_session",
        "matrix.yaml:6: sinks[./odd.py:Waiting].name: the sink './odd.py:Waiting' has an async run_finished",
        "matrix.yaml:7: sinks[./odd.py:Shorter].name: the sink './odd.py:Shorter' has run_finished(self), which is",
    )
    assert "did you mean 'end_session'?" in outcome.output
    assert "Right" not in outcome.output


def test_a_sink_that_nobody_told_where_it_is_is_off_unless_it_is_named(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    for variable in ("SLACK_BOT_TOKEN", "SLACK_CHANNEL_ID", "SLACK_WEBHOOK_URL"):
        monkeypatch.delenv(variable, raising=False)
    project.write("matrix.yaml", "ray: false\nsinks:\n  - name: slack\nentries: [{name: a, script: script.py}]\n")
    assert project.run("--collect-only").code == 0
    outcome = project.run("--collect-only", "--benchmark")
    assert outcome.code == 0
    assert outcome.has(
        "matrix.yaml:3", "matrix.yaml:3: PytestWarning: matrix.yaml:3: the sink slack needs bot_token and channel_id"
    )
    outcome = project.run("--collect-only", "--bench-sink", "slack")
    assert outcome.code == 4
    assert outcome.has("the sink slack needs bot_token and channel_id")


def test_all_sinks_that_lack_something_are_told_at_once(project: Project) -> None:
    project.matrix(project.entry("a"))
    nowhere = dict.fromkeys(("SLACK_BOT_TOKEN", "SLACK_WEBHOOK_URL", "MLFLOW_TRACKING_URI"), "")
    outcome = project.run("--bench-sink", "slack", "--bench-sink", "mlflow", **nowhere)
    assert outcome.code == 4
    assert outcome.has("the sink slack needs bot_token and channel_id", "the sink mlflow needs tracking_uri")


@pytest.mark.parametrize("seconds", ["-1", "nan", "soon"])
def test_the_grace_is_a_time(project: Project, seconds: str) -> None:
    project.matrix(project.entry("a"))
    outcome = project.run("--bench-sink-grace", seconds)
    assert outcome.code == 4
    assert outcome.has(f"--bench-sink-grace: found {seconds!r}, expected seconds")


def test_an_unknown_sink_on_the_command_line_is_a_usage_error(project: Project) -> None:
    project.matrix(project.entry("a"))
    outcome = project.run("--bench-sink", "mlfow")
    assert outcome.code == 4
    assert outcome.has("--bench-sink: unknown sink 'mlfow'; did you mean 'mlflow'?")


FLEET = pytest.param(("--bench-fleet", "local", "--bench-fleet-cpus", "1"), marks=pytest.mark.slow)


@pytest.mark.parametrize("options", [(), ("-n", "1"), FLEET], ids=["here", "in a worker", "in a fleet"])
def test_a_sink_is_told_of_the_attempts_before_the_one_that_counts(project: Project, options: tuple[str, ...]) -> None:
    tried_twice(project, sinks=[SINK])
    outcome = project.run("--benchmark", *options)
    assert outcome.code == 0, outcome.output
    assert [line for line in told(project) if line[0] not in ("start_session", "run_started")] == [
        ["run_finished", "again (attempt 1)", "error"],
        ["run_finished", "again", "passed"],
        ["end_session", {"passed": 1}],
    ]


@pytest.mark.parametrize("options", [(), ("-n", "1"), FLEET], ids=["here", "in a worker", "in a fleet"])
def test_a_sink_is_told_of_the_attempts_of_a_run_that_was_interrupted(
    project: Project, options: tuple[str, ...]
) -> None:
    tried_twice(project, args="--sleep 60", sinks=[SINK])
    process = project.start("--benchmark", *options)
    wait_for(lambda: (project.session_dir / "again" / "attempt_2" / "logs" / "stdouterr.log").exists())
    os.kill(process.pid, signal.SIGINT)
    outcome = project.outcome(process)
    assert outcome.code == 2, outcome.output
    assert [line for line in told(project) if line[0] not in ("start_session", "run_started")] == [
        ["run_finished", "again (attempt 1)", "error"],
        ["run_finished", "again", "interrupted"],
        ["end_session", {"interrupted": 1}],
    ]


def test_what_fails_for_a_while_is_delivered_in_the_end_and_in_order(project: Project) -> None:
    project.matrix(project.entry("a"), project.entry("b"), sinks=[{**SINK, "fail": 1}])
    outcome = project.run("--benchmark")
    assert outcome.code == 0
    assert [line[0] for line in told(project) if line[0] != "run_started"] == [
        "start_session",
        "run_finished",
        "run_finished",
        "end_session",
    ]


def test_what_cannot_be_delivered_is_told_once_and_resent_later(project: Project) -> None:
    project.matrix(*(project.entry(name) for name in "abc"), sinks=[{**SINK, "fail": 1000}])
    outcome = project.run("--benchmark")
    assert outcome.code == 0
    assert outcome.output.count("the server is down") == 1
    assert outcome.has("warning: sink ./my_sink.py:Recording: 4 of 4 messages not delivered")
    project.matrix(*(project.entry(name) for name in "abc"), sinks=[SINK])
    again = resend(project)
    assert again.returncode == 0, again.stdout
    assert [line[0] for line in told(project)] == ["start_session", *3 * ["run_finished"], "end_session"]
    assert not undelivered(project)
    assert "nothing is undelivered" in resend(project).stdout


def test_a_sink_that_hangs_delays_nothing(project: Project) -> None:
    sink = {**SINK, "hang_on": "run_finished", "call_timeout_s": 0.5}
    project.matrix(*(project.entry(name) for name in "ab"), sinks=[sink])
    began = time.monotonic()
    outcome = project.run("--benchmark", "--bench-sink-grace", "100")
    assert outcome.code == 0
    assert time.monotonic() - began < 60 * busyness()
    assert outcome.has("3 of 3 messages not delivered (a call took longer than 0.5 s")
    assert undelivered(project)


def test_a_journal_that_cannot_be_written_keeps_nothing_back(project: Project) -> None:
    project.session_dir.mkdir(parents=True)
    (project.session_dir / "undelivered").write_text("in the way")
    project.matrix(project.entry("a"), sinks=[SINK])
    outcome = project.run("--benchmark")
    assert ["run_finished", "a", "passed"] in told(project)
    assert outcome.has("delivered after: what is undelivered cannot be kept")
    project.matrix(project.entry("a"), sinks=[{**SINK, "fail": 1000}])
    assert "; they are lost" in project.run("--benchmark").output


def test_a_queue_that_is_full_keeps_nobody_waiting(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Stuck(Sink[SinkConfig]):
        def start_session(self, session: Session) -> None:
            go_on.wait(60)

    go_on = threading.Event()
    monkeypatch.setattr("curator_bench.sinks.delivery.MOST_WAITING", 3)
    ignored = lambda *given: None  # noqa: E731
    context = Context("stuck", tmp_path, tmp_path, ignored, ignored)
    kept = journal.Journal(tmp_path / "stuck.jsonl", "i")
    delivery = Delivery("stuck", lambda _: Stuck(SinkConfig(), context), kept, 60, Mask())
    delivery.start(Session("s", str(tmp_path), "i"), {})
    for name in "abcdef":
        delivery.tell(RunRecord(name=name, nodeid=name, verdict=Verdict.PASSED, duration_s=1.0))
    delivery.leave()
    go_on.set()
    assert "more than 3 messages are waiting; further ones are left for later" in delivery.account.reasons
    (left,) = journal.read(tmp_path / "stuck.jsonl")
    assert [one.name for one in left.messages.values()] == list("abcdef")  # type: ignore[union-attr]


def test_what_is_resent_later_does_not_replace_what_came_of_the_entry_since() -> None:
    state: dict[str, Any] = {}
    for verdict, ended_at in ((Verdict.PASSED, "2026-01-23T15"), (Verdict.INTERRUPTED, "2026-01-23T14")):
        result = RunRecord(name="a", nodeid="m.yaml::a", verdict=verdict, ended_at=ended_at)
        keep_newest(state, result, str(verdict))
    assert state["verdicts"] == {"m.yaml::a": "passed"}


def test_a_library_that_exits_ends_no_run(project: Project) -> None:
    project.matrix(project.entry("a"), project.entry("b"), sinks=[{**SINK, "exit_on": "run_finished"}])
    outcome = project.run("--benchmark", "-W", "error")
    assert outcome.code == 0, outcome.output
    assert outcome.has("3 of 3 messages not delivered (SystemExit: no more [31m); they are in")


def test_who_does_not_want_to_wait_for_a_sink_is_told_what_is_left(project: Project) -> None:
    project.matrix(project.entry("a"), sinks=[{**SINK, "sleep": 60}])
    process = project.start("--benchmark", "--bench-sink-grace", "100")
    assert process.stdout is not None
    assert any("Waiting for sinks: " in line for line in iter(process.stdout.readline, ""))
    os.kill(process.pid, signal.SIGINT)
    outcome = project.outcome(process)
    assert outcome.code == 2
    assert outcome.has("2 of 2 messages not delivered (took too long to finish)", "1 passed")
    assert "Traceback" not in outcome.output


def test_two_resends_at_once_deliver_once(project: Project) -> None:
    project.matrix(project.entry("a"), sinks=[{**SINK, "fail": 1000}])
    assert project.run("--benchmark").code == 0
    project.matrix(project.entry("a"), sinks=[{**SINK, "sleep": 5}])
    with ThreadPoolExecutor() as together:
        done = list(together.map(lambda _: resend(project), range(2)))
    assert sorted(one.returncode for one in done) == [0, 1]
    assert "another `curator-bench resend` is delivering it" in "".join(one.stdout for one in done)
    assert [line[0] for line in told(project)] == ["start_session", "run_finished", "end_session"]


def test_resend_knows_what_is_no_session_and_no_sink(project: Project) -> None:
    project.matrix(project.entry("a"), sinks=[SINK])
    assert project.run("--benchmark").code == 0
    assert "--sink: unknown sink 'slak'; did you mean 'slack'?" in resend(project, "--sink", "slak").stdout
    assert "results/s: nothing is undelivered to slack" in resend(project, "--sink", "slack").stdout
    assert "no session in" in resend(project, name="results").stdout


def test_resend_says_what_is_not_known_any_more(project: Project, new_port: Callable[[], int]) -> None:
    project.matrix(project.entry("a"))
    hook = f"http://127.0.0.1:{new_port()}/services/planted-hook"
    assert project.run("--bench-sink", "slack", SLACK_WEBHOOK_URL=hook).code == 0
    again = resend(project, **dict.fromkeys(("SLACK_WEBHOOK_URL", "SLACK_BOT_TOKEN", "SLACK_CHANNEL_ID"), ""))
    assert (again.returncode, "the sink slack needs bot_token and channel_id" in again.stdout) == (1, True)
    assert undelivered(project)


def test_a_slow_sink_has_time_as_long_as_it_delivers(project: Project) -> None:
    project.matrix(*(project.entry(name) for name in "abcd"), sinks=[{**SINK, "sleep": 1.0}])
    outcome = project.run("--benchmark", "--bench-sink-grace", "4")
    assert outcome.code == 0
    assert told(project)[-1] == ["end_session", {"passed": 4}]
    assert not undelivered(project)


def test_a_killed_pytest_leaves_what_was_not_delivered(project: Project) -> None:
    project.matrix(project.entry("a"), project.entry("b", "--sleep 60"), sinks=[{**SINK, "sleep": 1.0}])
    process = project.start("--benchmark", output=subprocess.DEVNULL)
    wait_for(lambda: (project.session_dir / "b" / "logs" / "stdouterr.log").exists())
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    wait_for(lambda: not project.processes())
    (left,) = journal.read(undelivered(project)[0])
    assert [one.name for one in left.messages.values()] in (["a"], [])  # type: ignore[union-attr]
    project.matrix(project.entry("a"), sinks=[SINK])
    assert resend(project).returncode == 0
    lines = told(project)
    assert ["run_finished", "a", "passed"] in lines
    assert lines[-1][0] == "end_session"
    assert not undelivered(project)


def test_a_session_that_still_runs_is_not_resent(project: Project) -> None:
    project.matrix(project.entry("a", "--sleep 600"), sinks=[SINK], default_timeout_s=600)
    process = project.start("--benchmark", output=subprocess.DEVNULL)
    log = project.session_dir / "a" / "logs" / "stdouterr.log"  # the sink is told a moment before the run begins
    wait_for(lambda: process.poll() is not None or log.exists())
    refused = resend(project)
    os.kill(process.pid, signal.SIGINT)
    process.wait()
    assert refused.returncode == 1
    assert "still runs this session" in refused.stdout
    assert told(project)[-2:] == [["run_finished", "a", "interrupted"], ["end_session", {"interrupted": 1}]]


OLD_LOGGING = """
    class Old:
        def start_session(self, name): self.put("start_session", name)
        def start_run(self, name): self.put("start_run", name)
        def log_params(self, params): self.put("log_params", params)
        def log_metrics(self, metrics): self.put("log_metrics", metrics["is_success"])
        def log_artifact(self, path): self.put("log_artifact", path.rpartition("/")[2])
        def end_run(self, success): self.put("end_run", success)
        def end_session(self, success): self.put("end_session", success)
        def put(self, *said): print(*said, file=open("old.txt", "a"), flush=True)
"""
OLD_PROCESSING = """
    class Old:
        def __init__(self, config): self.config = config
        def initialize(self, session_name, env_data): self.put("initialize", session_name, bool(env_data))
        def process_result(self, result): self.put(result["name"], result["success"], sorted(result))
        def finalize(self): self.put("finalize", self.config["color"])
        def put(self, *said): print(*said, file=open("old.txt", "a"), flush=True)
"""
KEYS = ["command", "exec_time_s", "name", "requirements_not_met", "returncode", "script_metrics", "script_params"]
KEYS += ["stdouterr_file", "success", "tasks", "timeout"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            OLD_LOGGING,
            [
                *("start_session s", "start_run a", "log_params {'sleep': 0.0}", "log_metrics True"),
                *("log_artifact stdouterr.log", "end_run True", "end_session True"),
            ],
        ),
        (OLD_PROCESSING, ["initialize s True", f"a True {KEYS}", "finalize red"]),
    ],
    ids=["logging", "processing"],
)
def test_sinks_of_older_runners_work(project: Project, text: str, expected: list[str]) -> None:
    project.write("old.py", text)
    project.matrix(project.entry("a"), sinks=[{"name": "./old.py:Old", "color": "red"}])
    assert project.run("--benchmark").code == 0
    assert (project.folder / "old.txt").read_text().splitlines() == expected


CURATORS_SINK = """
    from typing import Any
    from runner.entry import Entry
    from runner.sinks.sink import Sink

    class Mine(Sink):
        name = "mine"
        def __init__(self, sink_config: dict[str, Any]): self.file = sink_config["file"]
        def initialize(self, session_name: str, session: Any, env_dict: dict[str, Any]) -> None:
            names = [entry.name for entry in session.entries]
            self.put("initialize", session_name, session.results_path.name, names, session.viewer_url, bool(env_dict))
        def register_benchmark_entry_starting(self, result_dict: dict[str, Any], benchmark_entry: Entry) -> None:
            self.put("starting", benchmark_entry.name, result_dict["success"], benchmark_entry.get_sink_data(self.name))
        def register_benchmark_entry_finished(self, result_dict: dict[str, Any], benchmark_entry: Entry) -> None:
            more = benchmark_entry.get_sink_data(self.name).get("additional_metrics", [])
            found = [result_dict["metrics"].get(name) for name in more]
            took = result_dict["exec_time_s"] >= 0 and result_dict["exec_started_at"] > 0
            self.put("finished", benchmark_entry.name, result_dict["success"], result_dict["exit_code"], found, took)
            self.put(sorted(result_dict), result_dict["requirements_not_met"], benchmark_entry.requirements)
        def finalize(self) -> None: self.put("finalize")
        def put(self, *said): print(*said, file=open(self.file, "a"), flush=True)
"""
CURATORS_BASE = """
    from abc import ABC, abstractmethod

    class Sink(ABC):
        @abstractmethod
        def __init__(self, sink_config): ...
        @abstractmethod
        def initialize(self, session_name, session, env_dict): ...
        @abstractmethod
        def register_benchmark_entry_starting(self, result_dict, benchmark_entry): ...
        @abstractmethod
        def register_benchmark_entry_finished(self, result_dict, benchmark_entry): ...
        @abstractmethod
        def finalize(self): ...
"""


def test_a_sink_of_nemo_curators_present_interface_works_unchanged_where_it_stands(project: Project) -> None:
    (project.folder / "runner" / "sinks").mkdir(parents=True)
    project.write("runner/__init__.py", "")
    project.write("runner/entry.py", "class Entry: ...\n")
    project.write("runner/sinks/__init__.py", "")
    project.write("runner/sinks/sink.py", CURATORS_BASE)
    project.write("runner/sinks/mine.py", CURATORS_SINK)
    name = "./runner/sinks/mine.py:Mine"
    data = [{"name": name, "additional_metrics": ["m"]}]
    project.matrix(
        project.entry("a", "--metrics '{\"m\": 7}'", sink_data=data),
        project.entry("b", "--metrics '{\"m\": 7}'", requirements=[{"metric": "m", "min_value": 9, "max_value": 20}]),
        sinks=[{"name": name, "file": "mine.txt"}],
        viewer_url="http://viewer/",
    )
    assert project.run("--benchmark").code == 1
    said = (project.folder / "mine.txt").read_text().splitlines()
    keys = ["cmd", "exec_started_at", "exec_time_s", "exit_code", "gpu_stats", "logs_dir", "metrics", "name", "params"]
    keys += ["ray_cluster_data", "requirements_not_met", "run_id", "success", "timed_out", "warnings"]
    assert said[:4] == [
        "initialize s results ['a', 'b'] http://viewer/ True",
        "starting a False {'additional_metrics': ['m']}",
        "finished a True 0 [7] True",
        f"{keys} {{}} {{}}",
    ]
    assert said[4:6] == ["starting b False {}", "finished b False 0 [] True"]
    assert "'m': 'min_value 9.0, found 7" in said[6]
    assert said[6].endswith("{'m': {'min_value': 9.0, 'max_value': 20.0}}")
    assert said[7:] == ["finalize"]


def test_a_sink_may_be_offered_by_another_package_or_be_of_a_module(project: Project) -> None:
    package = project.folder / "offered-1.0.dist-info"
    package.mkdir()
    (package / "METADATA").write_text("Metadata-Version: 2.1\nName: offered\nVersion: 1.0\n")
    (package / "entry_points.txt").write_text("[curator_bench.sinks]\nours = my_sink:Recording\n")
    of_a_module = {"name": "my_sink:Recording", "file": "also.jsonl"}
    project.matrix(project.entry("a"), sinks=[{"name": "ours"}, of_a_module])
    assert project.run("--benchmark", PYTHONPATH=str(project.folder)).code == 0
    assert told(project) == told(project, "also.jsonl") != []
