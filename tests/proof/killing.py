"""A project whose runs have all there is to leave behind, and a look at what is left of them."""

from __future__ import annotations

import fcntl
import json
import os
import random
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from curator_bench.measure.processes import busyness

if TYPE_CHECKING:
    from end_to_end.conftest import Project

NOTHING_LEFT_WITHIN_S = 5.0
"""Where n times as many processes are ready to run as there are cores, n times as long."""
FULL = os.environ.get("CURATOR_BENCH_PROOF") == "full"
RAY = {"num_cpus": 1, "num_gpus": 0, "object_store_size": 100_000_000, "start_retries": 0}

# Works with its cluster for so many seconds; leaves a daemon, and shared memory when it is killed.
WORKS = """
import json, mmap, os, subprocess, sys, time
from pathlib import Path

subprocess.Popen(["sleep", "600"], start_new_session=True)
seconds = float(sys.argv[1])

def hold(name):
    with open(f"/dev/shm/{name}", "a+b") as file:
        file.truncate(4096)
        return mmap.mmap(file.fileno(), 4096)

name = f"{os.environ['CURATOR_BENCH_TEST']}-{os.getpid()}"
held = hold(name) if "--share" in sys.argv else None
if "RAY_ADDRESS" in os.environ:
    import ray
    ray.init(log_to_driver=False)

    @ray.remote
    class Holder:
        def __init__(self, name):
            self.held = name and hold(name)

        def work(self):
            time.sleep(0.05)

    holder = Holder.remote(f"{name}-worker" if "--share" in sys.argv else None)
    work = lambda: ray.get(holder.work.remote())
else:
    work = lambda: time.sleep(0.05)
work()

print("at work", flush=True)
end = time.monotonic() + seconds
while time.monotonic() < end:
    work()
Path(sys.argv[-1], "metrics.json").write_text("{}")
Path(sys.argv[-1], "params.json").write_text("{}")
if held:
    os.unlink(f"/dev/shm/{name}")
os._exit(0)
"""
MAKES = """
import sys, time
from pathlib import Path
for number in range(10):
    Path(sys.argv[1], str(number)).touch()
    time.sleep(0.05)
"""


class Killing:
    """A project that has all there is to leave behind, and a look at what is left."""

    def __init__(self, project: Project) -> None:
        self.project = project
        self.pids: set[int] = set()
        self.folders: set[Path] = set()
        project.write("works.py", WORKS)
        project.write("make.py", MAKES)
        project.write("prepare.py", "import time; time.sleep(0.3)")

    def matrix(self, *entries: dict[str, Any], ray: dict[str, Any] | bool) -> None:
        generate = {"script": "make.py", "args": "{dataset_dir}"}
        corpus = {"name": "corpus", "formats": [{"type": "jsonl", "path": "data/corpus"}], "generate": generate}
        setups = [{"name": "prepare", "script": "prepare.py"}]
        self.project.matrix(*entries, ray=ray, datasets=[corpus], data_setups=setups)

    @staticmethod
    def entry(name: str, seconds: float, more: str = "--share", **keys: Any) -> dict[str, Any]:
        return {"name": name, "script": "works.py", "args": f"{seconds} {{dataset:corpus,jsonl}} {more}", **keys}

    @contextmanager
    def running(self, *options: str, background: bool = False, **variables: str) -> Iterator[subprocess.Popen[str]]:
        with (self.project.folder / "output").open("w") as output:
            process = self.project.start(*options, output=output, background=background, **variables)
        try:
            yield process
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()

    @property
    def output(self) -> str:
        return (self.project.folder / "output").read_text()

    def look(self) -> None:
        """At who is there and what they own; a folder's note of its owner may go before the rest of it."""
        self.pids |= {process.pid for process in self.project.processes()}
        self.folders |= self._folders()

    def wait_for_work(self, entry: str = "one", within_s: float = 60) -> None:
        log = self.project.session_dir / entry / "logs" / "stdouterr.log"
        deadline = time.monotonic() + within_s * busyness()
        while not (log.exists() and "at work" in log.read_text()):
            assert time.monotonic() < deadline, self.output
            time.sleep(0.02)

    def left(self) -> list[str]:
        """What is there of this project's runs at this moment."""
        processes = [f"process {process.pid} {command(process.pid)}" for process in self.project.processes()]
        shared = [str(path) for path in Path("/dev/shm").glob(f"{self.project.mark.value}*")]
        folders = [str(folder) for folder in self.folders | self._folders() if folder.exists()]
        locks = [str(path) for path in self._lock_files() if _is_held(path)]
        return [*processes, *shared, *folders, *locks]

    def _folders(self) -> set[Path]:
        return {folder for folder in Path("/tmp").glob("cb-*") if _owner(folder) in self.pids}

    def _lock_files(self) -> Iterator[Path]:
        for pattern in ("**/.lock", "**/.*.lock", "results/*/env/.*"):
            yield from self.project.folder.glob(pattern)

    def wait_until_nothing_is_left(self) -> None:
        wait_until_empty(self.left, "nothing was left")

    def next_run_starts(self) -> None:
        self.matrix(self.entry("next", 0, ""), ray=RAY if FULL else False)
        outcome = self.project.run()
        assert outcome.code == 0, outcome.output
        assert len(list((self.project.folder / "data" / "corpus").iterdir())) == 10
        self.wait_until_nothing_is_left()


def command(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_text().replace("\0", " ")
    except OSError:
        return ""


def _owner(folder: Path) -> int | None:
    try:
        return int(json.loads((folder / "owner.json").read_text())["pid"])
    except (OSError, ValueError, KeyError):
        return None


def _is_held(path: Path) -> bool:
    try:
        with path.open("a") as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except FileNotFoundError:
        return False
    return False


def at_random(*seed: object) -> random.Random:
    """Other moments each time; what they were stands in the failure."""
    return random.Random(f"{time.time_ns()} {seed}")


def sleep(moment_s: float) -> None:
    print(f"killed after {moment_s:.3f} s")
    time.sleep(moment_s)


def nothing_left_within_s() -> float:
    return NOTHING_LEFT_WITHIN_S * busyness()


def wait_until_empty(left: Callable[[], list[str]], what: str, within_s: float | None = None) -> None:
    began = time.monotonic()
    while found := left():
        assert time.monotonic() - began < (within_s or nothing_left_within_s()), found
        time.sleep(0.02)
    print(f"{what} {time.monotonic() - began:.2f} s later")
