"""What a script puts in the place of the bench's files and folders harms nothing outside, and keeps nobody waiting."""

from __future__ import annotations

import json
import os
import pty
import select
import sqlite3
import subprocess
import sys
import termios
import time
from collections.abc import Callable
from contextlib import closing
from typing import TYPE_CHECKING, Any

import pytest

from curator_bench.measure.processes import busyness

if TYPE_CHECKING:
    from end_to_end.conftest import Outcome, Project

pytestmark = pytest.mark.slow

ATTACKS = """
import json, os, shutil, socket, sys
from pathlib import Path

act, victim = sys.argv[1], Path(sys.argv[2])
results = Path(sys.argv[-1])
entry = results.parent
session = next(folder for folder in entry.parents if (folder / "env").exists())

def put(path, make):
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
    make(path)

def finish(folder=results):
    (folder / "params.json").write_text("{}")
    (folder / "metrics.json").write_text('{"is_success": true}')

OF_THE_RUN = (
    "logs/stdouterr.log results.jsonl claim.json status.json command.txt memory.csv gpustats.csv results.json"
    " .results.json.pending"
).split()
OF_THE_SESSION = (
    "session.json .session.json.lock progress.json summary.json .session-uid .invocations/.lock"
    " data_setup/prepare/.lock data_setup/prepare/outcome.json data_setup/prepare/stdouterr.log unrecorded.jsonl"
).split() + [f"env/{name}" for name in os.listdir(session / "env")]

if act == "links scratch":
    put(entry / "scratch", lambda path: path.symlink_to(victim))
elif act == "links files":
    for name in OF_THE_RUN:
        put(entry / name, lambda path: path.symlink_to(victim / "file"))
elif act == "links folders":
    for name in ("logs", "scratch", "ray_cluster", "artifacts", "repeat_2", "attempt_2", "warmup_1"):
        put(entry / name, lambda path: path.symlink_to(victim))
elif act == "links its folder":
    finish()
    entry.rename(entry.with_name("moved"))
    entry.symlink_to(victim)
    sys.exit()
elif act == "links its results":
    finish(victim / "folder")
    put(results, lambda path: path.symlink_to(victim / "folder"))
    sys.exit()
elif act == "leaves a pipe as metrics":
    os.mkfifo(results / "metrics.json")
    os.mkfifo(results / "params.json")
    os.mkfifo(results / "tasks.pkl")
    sys.exit()
elif act == "leaves pipes":
    for name in OF_THE_RUN:
        put(entry / name, os.mkfifo)
elif act == "leaves sockets":
    for name in OF_THE_RUN:
        put(entry / name, lambda path: (os.chdir(path.parent), socket.socket(socket.AF_UNIX).bind(path.name)))
elif act == "leaves a folder":
    put(entry / "results.json", os.mkdir)
elif act == "leaves endless files":
    for name in OF_THE_RUN:
        put(entry / name, lambda path: path.touch() or os.truncate(path, 1 << 42))
elif act == "leaves odd names":
    for folder in (entry, entry / "scratch", entry / "artifacts", results):
        for name in (b"new\\nline", b"\\xff\\xed\\xa0\\x80", b"\\x1b[31m", b"-rf", b"a" * 255):
            folder.mkdir(exist_ok=True)
            open(os.path.join(os.fsencode(folder), name), "w").close()
elif act == "leaves a deep tree":
    os.makedirs(entry / "scratch", exist_ok=True)
    os.chdir(entry / "scratch")
    for _ in range(1500):
        os.mkdir("a" * 50)
        os.chdir("a" * 50)
elif act == "leaves pipes for all":
    for name in OF_THE_SESSION:
        put(session / name, os.mkfifo)
elif act == "spoils notes":
    for name in os.listdir(session / "env"):
        (session / "env" / name).write_bytes(b"\\xff\\xfe")
elif act == "nests files deeply":
    for name in (*OF_THE_RUN, "session.json", "summary.json", "progress.json", ".session-uid"):
        (session / name if name in OF_THE_SESSION else entry / name).write_text("[" * 60_000)
elif act == "claims for a pipe":
    os.mkfifo(victim / "folder" / "stat")
    claim = json.loads((entry / "claim.json").read_text())
    claim |= {"invocation": "x", "pid": f"..{victim}/folder"}
    for folder in (entry, session / "comes_next"):
        folder.mkdir(exist_ok=True)
        (folder / "claim.json").write_text(json.dumps(claim))
elif act == "removes the session":
    shutil.rmtree(session)
    results.mkdir(parents=True)
finish()
"""
HARMLESS = (
    *("links scratch", "links files", "links folders", "leaves pipes", "leaves sockets"),
    *("leaves endless files", "leaves odd names", "leaves a deep tree"),
    *("spoils notes", "nests files deeply", "claims for a pipe", "comes next"),
)
ACTS = (
    *HARMLESS,
    "links its folder",
    "links its results",
    "leaves a pipe as metrics",
    "leaves a folder",
    "leaves pipes for all",
)


class Attacked:
    """A project whose entries attack it, and what came of them."""

    def __init__(self, project: Project, *acts: str, **keys: Any) -> None:
        self.project = project
        self.victim = project.folder / "home"
        (self.victim / "folder").mkdir(parents=True)
        (self.victim / "file").write_text("precious")
        (self.victim / "logs").mkdir()
        (self.victim / "logs" / "stdouterr.log").write_text("precious")
        project.write("attack.py", ATTACKS)
        project.write("prepare.py", "")
        entries = [
            {"name": act, "script": "attack.py", "args": f"'{act}' '{self.victim}'", "repeat": repeat}
            for act in acts
            for repeat in [2 if act == "links folders" else 1]
        ]
        project.matrix(*entries, data_setups=[{"name": "prepare", "script": "prepare.py"}], **keys)
        self.before = self.belongings()
        began = time.monotonic()
        self.outcome: Outcome = project.run("--benchmark", "-rA")
        self.took_s = time.monotonic() - began

    def belongings(self) -> dict[str, str]:
        files = [path for path in self.victim.rglob("*") if path.is_file() and "folder" not in path.parts]
        return {str(path): path.read_text() for path in files}

    def of(self, act: str) -> dict[str, Any]:
        folder = self.project.session_dir / act.replace(" ", "_")
        found: dict[str, Any] = json.loads((folder / "results.json").read_text())
        return found


@pytest.fixture(scope="module")
def attacked(new_project: Callable[[], Project]) -> Attacked:
    return Attacked(new_project(), *ACTS)


def test_nothing_that_a_link_leads_to_is_changed_or_removed(attacked: Attacked) -> None:
    assert attacked.belongings() == attacked.before
    assert sorted(path.name for path in attacked.victim.iterdir()) == ["file", "folder", "logs"]


@pytest.mark.parametrize("act", HARMLESS)
def test_a_run_with_links_pipes_and_the_like_in_its_folder_is_judged_as_any_other(attacked: Attacked, act: str) -> None:
    assert attacked.of(act)["verdict"] == "passed", attacked.outcome.output
    folder = attacked.project.session_dir / act.replace(" ", "_")
    for name in ("results.json", "results.jsonl", "status.json"):
        assert (folder / name).is_file()
        assert not (folder / name).is_symlink()
    assert not os.path.lexists(folder / "scratch")


def test_results_that_are_no_files_are_named(attacked: Attacked) -> None:
    linked, piped = attacked.of("links its results"), attacked.of("leaves a pipe as metrics")
    assert (linked["verdict"], piped["verdict"]) == ("crashed", "crashed")
    assert "is a link, not a folder" in linked["error"]
    assert piped["error"] == "metrics.json is a pipe, not a file"
    assert "tasks.pkl is a pipe, not a file" in piped["warnings"]


def test_a_folder_that_was_replaced_is_named_at_its_run(attacked: Attacked) -> None:
    run = attacked.of("links its folder")
    assert run["verdict"] == "error"
    assert run["cause"] == "disk"
    assert "the run's folder was removed or replaced while it ran" in run["error"]


def test_a_folder_in_the_place_of_a_file_of_ours_is_named_at_its_run(attacked: Attacked) -> None:
    name = attacked.project.session_dir / "leaves_a_folder" / "results.json"
    run = next(run for run in attacked.outcome.json("summary.json")["runs"] if run["entry"] == "leaves a folder")
    assert (run["verdict"], run["cause"]) == ("error", "disk")
    assert run["error"] == f"the script replaced a file of the run by a folder: {name}"


def test_no_pipe_keeps_anybody_waiting(attacked: Attacked) -> None:
    """Neither in the invocation that found them nor in one that joins the session."""
    assert attacked.took_s < 60 * busyness()
    began = time.monotonic()
    again = attacked.project.run("--benchmark", "--bench-resume", "-k", "scratch or pipes")
    assert time.monotonic() - began < 60 * busyness()
    assert again.code == 0, again.output


def test_a_link_in_the_place_of_one_of_ours_is_not_followed_either(new_project: Callable[[], Project]) -> None:
    """With `artifacts_dir` the large folders are links; their content stands where they led to when they were made."""
    attacked = Attacked(new_project(), "links scratch", "links folders", artifacts_dir="big")
    assert attacked.belongings() == attacked.before
    for act in ("links scratch", "links folders"):
        assert attacked.of(act)["verdict"] == "passed"
        large = attacked.project.folder / "big" / "s" / act.replace(" ", "_")
        assert (large / "logs" / "stdouterr.log").is_file()
        assert not (large / "scratch").exists()


def test_names_in_a_matrix_lead_nowhere_outside_the_session(new_project: Callable[[], Project]) -> None:
    project = new_project()
    project.write("make.py", "import pathlib, sys; pathlib.Path(sys.argv[1], 'x').touch(); print('made')")
    outside = "../../../../OUTSIDE"
    corpus = {
        "name": f"{outside}/corpus",
        "formats": [{"type": f"{outside}/jsonl", "path": "data/corpus"}],
        "generate": {"script": "make.py", "args": "{dataset_dir}"},
    }
    entry = {"name": f"{outside}/entry", "script": "script.py", "matrix": {"size": [f"{outside}/a", ".."]}}
    project.matrix(
        {**entry, "args": f"--say {{dataset:{outside}/corpus,{outside}/jsonl}}"},
        datasets=[corpus],
        data_setups=[{"name": f"{outside}/setup", "script": "make.py", "args": "."}],
        sinks=[{"name": "jsonl", "path": "history.jsonl"}],
    )
    outcome = project.run()
    assert outcome.code == 0, outcome.output
    assert not [path for path in project.folder.parent.rglob("OUTSIDE*") if path.is_relative_to(project.folder.parent)]
    inside = {path.parent.name for path in project.session_dir.glob("data_setup/*/stdouterr.log")}
    assert len(inside) == 2
    assert len(list(project.session_dir.rglob("results.json"))) == 2


def test_a_results_folder_whose_name_is_too_long_is_one_message(project: Project) -> None:
    project.matrix(project.entry("a"))
    outcome = project.run("--bench-results", "/".join(["a" * 200] * 30))
    assert outcome.code == 4, outcome.output
    assert "INTERNALERROR" not in outcome.output
    assert "results cannot be written to" in outcome.output
    assert "File name too long" in outcome.output


def test_a_session_that_is_removed_while_it_runs_is_said_at_the_run_and_of_those_before(
    new_project: Callable[[], Project],
) -> None:
    attacked = Attacked(new_project(), "does nothing", "removes the session")
    assert attacked.outcome.code == 1
    assert attacked.of("removes the session")["verdict"] == "error"
    assert attacked.outcome.has("the run's folder was removed or replaced while it ran")
    assert attacked.outcome.has("the files of 1 run are gone: its folder was removed after it had ended: does nothing")


def test_no_command_waits_for_what_a_script_left_in_a_session(attacked: Attacked) -> None:
    project = attacked.project
    undelivered = project.session_dir / "undelivered"
    undelivered.mkdir(exist_ok=True)
    os.mkfifo(undelivered / "jsonl.jsonl")
    for file in (project.session_dir / "summary.json", project.session_dir / "leaves_pipes" / "results.json"):
        file.unlink()
        os.mkfifo(file)
    lines = project.session_dir / "leaves_sockets" / "results.jsonl"
    lines.unlink()
    os.mkfifo(lines)
    endless = project.session_dir / "leaves_pipes" / "results.jsonl"
    os.truncate(endless, 1 << 42)
    for words in (["resend", "results/s"], ["pivot", "results/s", "--metric", "exec_time_s"], ["import", "results/s"]):
        assert "Traceback" not in _command(project, *words).stderr
    assert f"{lines} cannot be read: is a pipe, not a file" in _command(project, "import", str(lines)).stderr
    assert f"{endless} cannot be read: has a line that is too long" in _command(project, "import", str(endless)).stderr


LOOP = "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n) SELECT count(*) FROM n"
SAYS_PASSED = "UPDATE test_run SET verdict = 'passed' WHERE id = NEW.id"


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        ("os.truncate('benchmark.db', 0)", "benchmark.db, where runs were recorded, cannot be read any more"),
        (f'sql("CREATE TRIGGER t AFTER UPDATE ON test_run BEGIN {SAYS_PASSED}; END")', "1 run changed or gone from"),
        ("sql(\"DELETE FROM test_run WHERE verdict <> 'running'\")", "1 run changed or gone from"),
        (f'sql("CREATE TRIGGER t AFTER UPDATE ON test_run BEGIN {LOOP}; END")', "1 run not recorded in"),
    ],
    ids=["truncated", "a trigger that lies", "deleted", "a trigger without end"],
)
def test_a_database_that_a_script_damages_is_said(project: Project, damage: str, said: str) -> None:
    project.write(
        "damages.py",
        f"""
        import os, sqlite3, sys

        def sql(statement):
            with sqlite3.connect("benchmark.db") as database:
                database.execute(statement)

        {damage}
        sys.exit(3)
        """,
    )
    project.matrix(project.entry("first"), {"name": "damages", "script": "damages.py"})
    began = time.monotonic()
    outcome = project.run("--benchmark")
    assert time.monotonic() - began < 60 * busyness()
    assert outcome.has(said), outcome.output
    assert outcome.json("first", "results.json")["verdict"] == "passed"
    assert outcome.json("damages", "results.json")["verdict"] == "crashed"


def test_runs_that_were_recorded_before_a_script_removed_the_database_are_named(project: Project) -> None:
    project.write("removes.py", "import os\nos.unlink('benchmark.db')\n")
    project.matrix(project.entry("first"), {"name": "removes", "script": "removes.py"}, project.entry("last"))
    outcome = project.run("--benchmark")
    assert outcome.has("2 runs not recorded"), outcome.output
    assert outcome.has("1 run changed or gone from"), outcome.output
    assert outcome.has("since recorded: first; their results are in"), outcome.output


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("pid", "..{folder}", "pid: found '..{folder}', expected a whole number"),
        ("files", 5, "files: found '5', expected a list"),
        ("sink", ["slack"], "sink: found"),
    ],
)
def test_a_journal_that_a_script_forged_is_not_resent_and_not_waited_for(
    project: Project, name: str, value: Any, said: str
) -> None:
    os.mkfifo(project.folder / "stat")  # as of a process, if a pid were a path
    project.matrix(project.entry("a"), sinks=[{"name": "slack", "webhook_url": "http://127.0.0.1:9/"}])
    project.run("--benchmark")
    journal = project.session_dir / "undelivered" / "slack.jsonl"
    head, *others = journal.read_text().splitlines()
    forged = json.loads(head)
    forged["source"][name] = value.format(folder=project.folder) if isinstance(value, str) else value
    journal.write_text("\n".join([json.dumps(forged), *others]) + "\n")
    done = _command(project, "resend", "results/s")
    assert done.returncode == 1
    assert "cannot be resent" in done.stderr
    assert said.format(folder=str(project.folder)[:58]) in done.stderr
    assert journal.exists()


def test_a_journal_without_end_is_named_and_not_read(project: Project) -> None:
    project.matrix(project.entry("a"), sinks=[{"name": "slack", "webhook_url": "http://127.0.0.1:9/"}])
    project.run("--benchmark")
    journal = project.session_dir / "undelivered" / "slack.jsonl"
    os.truncate(journal, 1 << 42)
    done = _command(project, "resend", "results/s")
    assert done.returncode == 1
    assert f"{journal.relative_to(project.folder)} cannot be read: has a line that is too long" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_pid_that_a_script_wrote_into_the_database_is_no_path(project: Project) -> None:
    os.mkfifo(project.folder / "stat")
    project.matrix(project.entry("a"))
    project.run("--benchmark")
    with closing(sqlite3.connect(project.folder / "benchmark.db")) as database, database:
        database.execute("UPDATE test_run SET verdict = 'running', pid = ?", [f"..{project.folder}"])
    began = time.monotonic()
    assert project.run("--benchmark").code == 0
    assert time.monotonic() - began < 60 * busyness()


def test_what_a_script_prints_does_not_command_the_terminal(project: Project) -> None:
    project.matrix(
        project.entry("colours", "--say '\x1b]0;title\x07\x1b[2J\x1b[31mred\x1b[0m\x08\u202egnp.exe' --exit 3")
    )
    output = project.run("--benchmark", "--bench-reason", "\x1b[2Jnightly\x07").output
    assert "  red\\x08\\u202egnp.exe" in output
    shown = _command(project, "show", "s").stdout
    assert "reason     nightly\\x07" in shown
    refused = _command(project, "show", "s\x1b]0;title\x07\x08").stderr
    assert "\\x08" in refused
    assert not {"\x1b", "\x07", "\x08", "\u202e"} & set(output + shown + refused)


def test_a_terminal_whose_output_a_script_stops_goes_on(project: Project) -> None:
    """It opens the device by its name, changes the modes and stops the output."""
    project.write(
        "stops.py",
        """
        import os, sys, termios, tty
        from pathlib import Path

        terminal = os.open(sys.argv[1], os.O_RDWR | os.O_NOCTTY)
        tty.setraw(terminal)
        termios.tcflow(terminal, termios.TCOOFF)
        Path(sys.argv[-1], "params.json").write_text("{}")
        Path(sys.argv[-1], "metrics.json").write_text("{}")
        """,
    )
    ours, theirs = pty.openpty()
    before = termios.tcgetattr(theirs)
    project.matrix({"name": "stops", "script": "stops.py", "args": os.ttyname(theirs)}, project.entry("next"))
    process = subprocess.Popen(
        [sys.executable, "-c", IN_THE_FOREGROUND, *project.command("--benchmark")],
        cwd=project.folder,
        env=project.environment(),
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        start_new_session=True,
    )
    try:
        deadline = time.monotonic() + 90 * busyness()
        while process.poll() is None and time.monotonic() < deadline:
            if select.select([ours], [], [], 0.1)[0]:
                os.read(ours, 65536)
        assert process.poll() == 0
        assert termios.tcgetattr(theirs) == before
    finally:
        process.kill()
        process.wait()
        os.close(ours)
        os.close(theirs)


IN_THE_FOREGROUND = """
import fcntl, os, sys, termios

fcntl.ioctl(0, termios.TIOCSCTTY, 0)
os.execv(sys.argv[1], sys.argv[1:])
"""


def test_what_a_checkout_configures_does_not_command_the_terminal(project: Project) -> None:
    project.matrix(project.entry("a"))
    project.write("pytest.ini", "[pytest]\nbenchmark_db = \x1b[31mred\x07.db\n")
    output = project.run("--benchmark", "--bench-results", "\x1b[2Jresults").output
    assert f"Database: {project.folder}/\\x1b[31mred\\x07.db" in output
    assert f"Session: {project.folder}/\\x1b[2Jresults/s" in output
    refused = project.run("--benchmark", "--bench-results", f"{project.folder}/pytest.ini/\x1b[2J").output
    assert "results cannot be written to" in refused
    assert not {"\x1b", "\x07"} & set(output + refused + _command(project, "sessions").stderr)


def test_a_guard_that_a_script_stopped_still_clears_up_after_a_kill(project: Project) -> None:
    project.write(
        "stops.py",
        """
        import os, signal, sys
        from pathlib import Path

        def of_ours(pid, part):
            try:
                environment, words = (Path(f"/proc/{pid}/{name}").read_bytes() for name in ("environ", "cmdline"))
                return os.environ["CURATOR_BENCH_TEST"].encode() in environment and part in words
            except OSError:
                return False

        for pid in map(int, filter(str.isdigit, os.listdir("/proc"))):
            if of_ours(pid, b"guard_program"):
                os.kill(pid, signal.SIGSTOP)
        Path(sys.argv[-1], "metrics.json").write_text("{}")
        """,
    )
    project.matrix({"name": "stops", "script": "stops.py"}, project.entry("sleeps", "--sleep 600 --daemon"))
    process = project.start("--benchmark", output=subprocess.DEVNULL)
    log = project.session_dir / "sleeps" / "logs" / "stdouterr.log"
    wait_for(lambda: log.exists() and "at work" in log.read_text())
    process.kill()
    process.wait()
    wait_for(lambda: not project.processes())


STOPS_ALL = """
import os, pathlib, signal, subprocess, sys, time

def stat_of(pid):
    return open(f"/proc/{pid}/stat").read().rpartition(") ")[2].split()

def content(pid, name):
    try:
        return pathlib.Path(f"/proc/{pid}/{name}").read_bytes()
    except OSError:
        return b""

inner = os.getppid()
outer = int(stat_of(inner)[1])
mark = os.environ["CURATOR_BENCH_TEST"].encode()
pids = [int(name) for name in os.listdir("/proc") if name.isdigit()]
guards = [pid for pid in pids if mark in content(pid, "environ") and b"guard_program" in content(pid, "cmdline")]
for pid in (*guards, outer, inner):
    os.kill(pid, signal.SIGSTOP)
print("all stopped", flush=True)
time.sleep(600)
"""


def test_guard_and_keepers_that_a_script_stopped_end_when_the_bench_is_killed_just_then(project: Project) -> None:
    project.write("stops.py", STOPS_ALL)
    project.matrix({"name": "stops", "script": "stops.py"})
    process = project.start("--benchmark", output=subprocess.DEVNULL)
    log = project.session_dir / "stops" / "logs" / "stdouterr.log"
    wait_for(lambda: log.exists() and "all stopped" in log.read_text())
    process.kill()
    process.wait()
    wait_for(lambda: not project.processes())


FLOODS = """
import os, signal, sys, time
from pathlib import Path

def content(pid, name):
    try:
        return Path(f"/proc/{pid}/{name}").read_bytes()
    except OSError:
        return b""

def flood(pid):
    try:
        descriptors = os.listdir(f"/proc/{pid}/fd")
    except OSError:
        return
    for descriptor in descriptors:
        path = f"/proc/{pid}/fd/{descriptor}"
        try:
            if os.readlink(path).startswith("pipe:"):
                pipe = os.open(path, os.O_WRONLY | os.O_NONBLOCK)
                while os.write(pipe, b"ended 1 2 3\\nstarted x\\n" * 50 + b"x" * 5000):
                    pass
        except OSError:  # the pipe is full, or was closed meanwhile
            pass

act, program, mark = sys.argv[1], sys.argv[2].encode(), os.environ["CURATOR_BENCH_TEST"].encode()
for pid in filter(str.isdigit, os.listdir("/proc")):
    if mark in content(pid, "environ") and program in content(pid, "cmdline") and int(pid) != os.getpid():
        if act == "stops":
            os.kill(int(pid), signal.SIGSTOP)
        flood(pid)
results = Path(sys.argv[-1])
(results / "params.json").write_text("{}")
(results / "metrics.json").write_text('{"is_success": true}')
if act == "stops":
    os._exit(0)
while True:
    time.sleep(1)
"""


def test_pipes_of_ours_that_a_script_floods_keep_nobody_waiting(project: Project) -> None:
    """It finds them in /proc. Those who read them are also stopped, or else what it writes reaches the bench."""
    project.write("floods.py", FLOODS)
    flood = {"script": "floods.py", "timeout_s": 1}
    project.matrix(
        {"name": "keeper", "args": "stops keeper_program", **flood},
        {"name": "guard", "args": "stops guard_program", **flood, "timeout_s": 60},
        {"name": "lies", "args": "lies keeper_program", **flood},
        project.entry("comes next"),
    )
    began = time.monotonic()
    outcome = project.run("--benchmark")
    assert time.monotonic() - began < 60 * busyness()
    verdicts = {run["name"]: run["verdict"] for run in outcome.json("summary.json")["runs"]}
    assert verdicts["guard"] == verdicts["comes next"] == "passed"
    # Either nobody hears of its end, or a keeper that is not stopped yet takes the flood for an order to end it.
    assert {verdicts["keeper"], verdicts["lies"]} <= {"timeout", "crashed"}
    assert "Traceback" not in outcome.output
    assert not project.processes()


def wait_for(condition: Callable[[], bool], within_s: float = 30) -> None:
    deadline = time.monotonic() + within_s * busyness()
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.1)


def _command(project: Project, *words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", "from curator_bench.cli import main; main()", *words]
    return subprocess.run(
        command, cwd=project.folder, capture_output=True, text=True, timeout=60 * busyness(), check=False
    )
