"""Another user of the machine, at work while a session runs, stops, changes and learns nothing of it."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil
import pytest
from other_user import NOBODY, needs_a_second_user, shared_folder, start
from proof.killing import FULL, RAY, Killing, at_random, sleep

from curator_bench.cluster.environment import CLUSTER_VARIABLE
from curator_bench.cluster.shared_memory import files_held_by
from curator_bench.measure.processes import RUN_VARIABLE, busyness

if TYPE_CHECKING:
    from end_to_end.conftest import Project

pytestmark = needs_a_second_user
ROUNDS = range(5 if FULL else 1)
CLUSTER_FOLDERS = "cb-"

# Told facts about the session, as one who knows its source would find or guess them; says what came of it, twice.
ATTACKS = """
def tried(act, *arguments, **more):
    try:
        return act(*arguments, **more)
    except OSError:
        return None

def text_of(path, flags=os.O_RDONLY):
    descriptor = tried(os.open, path, flags | os.O_NONBLOCK)
    if descriptor is None:
        return None
    found = tried(os.read, descriptor, 1 << 20)
    os.close(descriptor)
    return found

home, project = sys.argv[1:3]
facts = json.loads(sys.stdin.readline())
said = {"entered": [], "planted": [], "written": [], "read": [], "told": [], "held": [], "killed": [], "opened": []}
held, sleepers, made = [], [], []

def attack_folder(folder):
    if tried(os.listdir, folder) is not None or tried(os.stat, folder + "/owner.json") is not None:
        said["entered"].append(folder)
    for name in ("session_29", "session_2999-12-31", "r", "r/session_29", "owner.json", "logs", "r/sockets"):
        path = f"{folder}/{name}"
        if tried(os.rename, path, path + ".old") or tried(os.symlink, home, path) or os.path.islink(path):
            said["planted"].append(path)
    tried(os.rename, folder, folder + "-moved")
    tried(os.rmdir, folder)

def squat():
    note = {"marker": "m", "cluster": facts["cluster"], "pid": 2**22 + 1, "started": 1.0, "where": facts["where"]}
    for mode in (0o700, 0o755, 0o777):
        folder = tempfile.mkdtemp(prefix="cb-", dir="/tmp")
        os.chmod(folder, mode)
        with open(folder + "/owner.json", "w") as file:
            json.dump(note, file)
        os.symlink(home, folder + "/session_29")
        os.mkdir(folder + "/r")
        os.symlink(home, folder + "/r/session_29")
        os.mkfifo(folder + "/pipe")
        made.append(folder)
    link = f"/tmp/cb-link{os.getpid()}"
    os.symlink(home, link)
    made.append(link)

def wear_the_brand():
    for number in facts["brands"]:
        tried(resource.prlimit, 0, 10, (number, resource.prlimit(0, 10)[1]))
        sleepers.append(subprocess.Popen(["sleep", "600"], env={}, start_new_session=True))

def look_at_files():
    for top, folders, names in os.walk(project):
        for name in [*names, *folders]:
            path = os.path.join(top, name)
            if (found := text_of(path)) is not None:
                said["read"].append(path)
                said["told"] += [path for secret in facts["secrets"] if secret.encode() in found]
                descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
                if tried(fcntl.flock, descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB) is None:
                    held.append(descriptor)
                    said["held"].append(path)
            if text_of(path, os.O_WRONLY) is not None or tried(os.symlink, home, path + ".link"):
                said["written"].append(path)
            tried(os.rename, path, path + ".moved")

def look_at_processes():
    for pid in facts["pids"]:
        for name in ("cmdline", "environ", "maps", "mem", "fd", "status", "limits"):
            found = text_of(f"/proc/{pid}/{name}") or b""
            said["told"] += [f"{pid} {name}" for secret in facts["secrets"] if secret.encode() in found]
        if tried(os.kill, pid, 9) is None and os.path.exists(f"/proc/{pid}"):
            with contextlib.suppress(OSError):
                os.kill(pid, 9)
                said["killed"].append(pid)

def knock():
    for port in facts["ports"]:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1) as peer:
            peer.sendall(b"GET / HTTP/1.1\\r\\nHost: x\\r\\n\\r\\n" + os.urandom(200))
    for path in facts["segments"] + facts["sockets"]:
        if text_of(path) is not None or text_of(path, os.O_RDWR) is not None:
            said["opened"].append(path)
        with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX) as peer:
            peer.connect(path)
            said["opened"].append(path)

squat()
wear_the_brand()
print("ready", flush=True)
while not select.select([sys.stdin], [], [], 0.1)[0]:
    for folder in facts["folders"]:
        attack_folder(folder)
    look_at_files()
    look_at_processes()
    knock()
said["ended"] = [one.pid for one in sleepers if one.poll() is not None]
said["lost"] = [path for path in made if not os.path.lexists(path)]
for one in sleepers:
    one.kill()
for path in made:
    os.unlink(path) if os.path.islink(path) else shutil.rmtree(path)
print(json.dumps(said), flush=True)
"""


WAITS = """
import os, sys, time
from pathlib import Path
import ray
ray.init(log_to_driver=False)
work = ray.remote(lambda: time.sleep(0.05))
ray.get(work.remote())
print("at work", flush=True)
while not Path(sys.argv[1], "go").exists():
    ray.get(work.remote())
for name in ("metrics.json", "params.json"):
    Path(sys.argv[-1], name).write_text("{}")
"""


@pytest.fixture
def open_project(project: Project) -> Iterator[Project]:
    """One that every user can look into."""
    with shared_folder(0o755) as folder:
        yield type(project)(folder)


def facts_of(project: Project) -> dict[str, Any]:
    """What another user could find out at best, and all that must stay unknown."""
    processes = [psutil.Process(one.pid) for one in project.processes()]
    environments = [environment for one in processes if (environment := _environment(one))]
    values = {
        name: next((one[name] for one in environments if name in one), "")
        for name in ("RAY_AUTH_TOKEN", RUN_VARIABLE, CLUSTER_VARIABLE)
    }
    folders = [Path(folder) for folder in Path("/tmp").glob(f"{CLUSTER_FOLDERS}*") if (folder / "owner.json").exists()]
    notes = [_note(folder) for folder in folders]
    note = next(note for note in notes if note["cluster"] == values[CLUSTER_VARIABLE])
    pids = [one.pid for one in processes]
    return {
        "pids": pids,
        "folders": [str(folder) for folder, note in zip(folders, notes, strict=True) if note["pid"] in pids],
        "cluster": values[CLUSTER_VARIABLE],
        "where": note["where"],
        "secrets": [values["RAY_AUTH_TOKEN"], values[RUN_VARIABLE], values[CLUSTER_VARIABLE]],
        "brands": sorted({number for pid in pids if 0 < (number := _brand(pid)) < 2**62})[:3],
        "ports": sorted({connection.laddr.port for one in processes for connection in _listening(one)}),
        "segments": sorted(map(str, files_held_by(pids))),
        "sockets": [str(path) for folder in folders for path in folder.rglob("*") if path.is_socket()],
    }


def _note(folder: Path) -> dict[str, Any]:
    """One of another session may be gone by now."""
    try:
        found: dict[str, Any] = json.loads((folder / "owner.json").read_text())
    except (OSError, ValueError):
        return {"cluster": "", "pid": 0}
    return found


def _environment(process: psutil.Process) -> dict[str, str]:
    try:
        return process.environ()
    except psutil.Error:
        return {}


def _listening(process: psutil.Process) -> list[Any]:
    try:
        return [one for one in process.net_connections() if one.status == psutil.CONN_LISTEN]
    except psutil.Error:
        return []


def _brand(pid: int) -> int:
    try:
        line = Path(f"/proc/{pid}/limits").read_text().partition("Max file locks")[2].split(None, 1)[0]
    except OSError:
        return 0
    return int(line) if line.isdigit() else 0


@contextmanager
def attacking(project: Project, home: Path) -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
    """The facts it was told, and what it says when the block has ended."""
    facts = facts_of(project)
    said: dict[str, Any] = {}
    with start(ATTACKS, home, project.folder) as attacker:
        assert attacker.stdin
        assert attacker.stdout
        attacker.stdin.write(json.dumps(facts) + "\n")
        attacker.stdin.flush()
        assert attacker.stdout.readline() == "ready\n"
        yield facts, said
        output, _ = attacker.communicate("\n", timeout=60)
        assert attacker.returncode == 0, output
        said.update(json.loads(output.splitlines()[-1]))


@pytest.mark.parametrize("number", ROUNDS)
def test_another_user_stops_changes_and_learns_nothing_of_a_session(open_project: Project, number: int) -> None:
    killing = Killing(open_project)
    home = open_project.folder / "home"
    (home / "logs").mkdir(parents=True)
    for name in ("file", "logs/raylet.out", "logs/stdouterr.log"):
        (home / name).write_text("precious")
    killing.matrix(killing.entry("one", 8, ""), killing.entry("two", 1, ""), ray=RAY)
    with killing.running("--benchmark") as process:
        killing.wait_for_work()
        sleep(at_random(number).uniform(0, 2))
        killing.look()
        with attacking(open_project, home) as (facts, said):
            assert process.wait(timeout=180 * busyness()) == 0, killing.output
            killing.wait_until_nothing_is_left()
    assert [open_project.outcome_of(name)["verdict"] for name in ("one", "two")] == ["passed", "passed"]
    found = {str(path.relative_to(home)): path.read_text() for path in home.rglob("*") if path.is_file()}
    assert found == dict.fromkeys(("file", "logs/raylet.out", "logs/stdouterr.log"), "precious")
    done = {name: said[name] for name in ("entered", "planted", "written", "told", "killed", "opened", "ended", "lost")}
    assert not any(done.values()), done
    assert facts["ports"]
    assert said["read"], "results are as readable as the umask makes them"
    assert not [path for path in said["held"] if path.endswith("lock")]


@pytest.mark.parametrize("number", ROUNDS)
def test_a_note_of_another_user_ends_no_cluster_when_the_next_session_cleans_up(
    open_project: Project, new_project: Callable[[], Project], number: int
) -> None:
    """The note names the living cluster by its true mark, and a process that has ended."""
    killing, home = Killing(open_project), open_project.folder / "home"
    home.mkdir()
    open_project.write("waits.py", WAITS)
    killing.matrix({"name": "one", "script": "waits.py", "args": f"'{open_project.folder}'"}, ray=RAY)
    with killing.running() as process:
        killing.wait_for_work()
        killing.look()
        with attacking(open_project, home) as (_, said):
            second = Killing(new_project())
            second.matrix(second.entry("other", 0, ""), ray=RAY)
            outcome = second.project.run()
            assert outcome.code == 0, outcome.output
            assert process.poll() is None
            (open_project.folder / "go").touch()
            assert process.wait(timeout=180 * busyness()) == 0, killing.output
        assert said["lost"] == said["ended"] == []
        killing.wait_until_nothing_is_left()
    assert open_project.outcome_of("one")["verdict"] == "passed"


def test_what_stands_outside_a_session_is_closed_to_others_and_named_by_chance(open_project: Project) -> None:
    """Whatever the umask of whoever runs it."""
    killing = Killing(open_project)
    killing.matrix(killing.entry("one", 4, ""), ray=RAY)
    before = os.umask(0)
    try:
        with killing.running("--benchmark") as process:
            killing.wait_for_work()
            killing.look()
            facts = facts_of(open_project)
            modes = {path: path.lstat() for folder in killing.folders for path in [folder, *folder.glob("*.json")]}
            assert process.wait(timeout=180 * busyness()) == 0, killing.output
    finally:
        os.umask(before)
    assert modes
    assert not [str(path) for path, found in modes.items() if found.st_mode & 0o077 or found.st_uid != os.geteuid()]
    assert not [folder for folder in killing.folders if len(folder.name) < len(CLUSTER_FOLDERS) + 8]
    assert not [path for path in facts["segments"] if Path(path).exists()]
    ours = [path for path in open_project.session_dir.rglob("*") if path.is_file()]
    closed = [path for path in ours if path.parent.name == "undelivered" or "token" in path.name or "lock" in path.name]
    assert not [str(path) for path in closed if "lock" not in path.name and path.stat().st_mode & 0o077]


def test_nobody_else_is_a_user_that_cannot_be_had(tmp_path: Path) -> None:
    """The attacks above are those of another user indeed."""
    private = tmp_path / "private"
    private.mkdir(0o700)
    (private / "file").write_text("secret")
    with start("print(os.getuid(), os.path.exists(sys.argv[1]))", private / "file") as other:
        assert other.communicate()[0].split() == [str(NOBODY), "False"]
    assert subprocess.run(["test", "-e", private / "file"], check=False).returncode == 0
