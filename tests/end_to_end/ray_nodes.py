"""Ray clusters of several nodes, all on this machine, started as their users start them: `ray start`, and again."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Self

from curator_bench.cluster.environment import authentication, without_ray
from curator_bench.cluster.health import takes_connections
from curator_bench.cluster.local import LocalCluster
from curator_bench.cluster.model import ClusterRequest
from curator_bench.measure.processes import Mark, busyness, end_processes
from curator_bench.values import RaySettings

RAY = Path(sys.executable).with_name("ray")
_SIZES = ("--num-gpus=0", "--object-store-memory=100000000", "--disable-usage-stats")
_READY_WITHIN_S = 90.0
_STARTED = b"Ray runtime started"


class RayNodes:
    """A head, and what joins it; used as a context, at whose end nothing of it is left."""

    def __init__(self) -> None:
        self.mark = Mark(uuid.uuid4().hex, "CURATOR_BENCH_TEST_NODE")
        self.folder = Path(tempfile.mkdtemp(prefix="cbt-"))
        self.address = ""
        self.token = uuid.uuid4().hex
        self._started: list[tuple[subprocess.Popen[bytes], Mark]] = []

    def join(self, *without: Path, options: Sequence[str] = (), **variables: str) -> None:
        """`without`: folders that are empty for this node, as they are on another machine."""
        self._start(without, [f"--address={self.address}", *_one_cpu(options), *_SIZES, *options], variables)
        self._wait_for_the_last()  # two that join at the same moment would choose the same names

    def _wait_for_the_last(self) -> None:
        log = self.folder / f"node{len(self._started) - 1}.log"
        deadline = time.monotonic() + _READY_WITHIN_S * busyness()
        while _STARTED not in log.read_bytes():
            assert time.monotonic() < deadline, log.read_text()
            assert self._started[-1][0].poll() is None, log.read_text()
            time.sleep(0.1)

    def kill_the_last(self) -> None:
        """As when its plug is pulled."""
        process, mark = self._started[-1]
        end_processes(mark, [process.pid], grace_s=0)

    def kill_all(self) -> None:
        end_processes(self.mark, grace_s=0)

    def variables(self, token: str = "") -> dict[str, str]:
        """What opens it."""
        return authentication(token or self.token)

    def answers(self) -> bool:
        """It is still the user's."""
        return self._python("import ray; ray.init(); assert ray.cluster_resources()['CPU'] >= 1").returncode == 0

    def _python(self, program: str) -> subprocess.CompletedProcess[bytes]:
        env = {**without_ray(os.environ), **self.variables(), "RAY_ADDRESS": self.address}
        return subprocess.run(
            [sys.executable, "-c", program], env=env, check=False, timeout=_READY_WITHIN_S * busyness()
        )

    def _start(self, without: Sequence[Path], options: Sequence[str], variables: dict[str, str]) -> None:
        mark = Mark(uuid.uuid4().hex, "CURATOR_BENCH_TEST_JOINED")
        own = {**self.variables(), **self.mark.environment(), **mark.environment(), **variables}
        with (self.folder / f"node{len(self._started)}.log").open("wb") as log:
            process = subprocess.Popen(
                [*_hiding(without), RAY, "start", "--block", *options],
                env={**without_ray(os.environ), **own},
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        self._started.append((process, mark))

    def close(self) -> None:
        for process, _ in self._started:
            with suppress(OSError):
                os.killpg(process.pid, signal.SIGKILL)
        end_processes(self.mark, grace_s=0)
        for process, _ in self._started:
            process.wait()
        shutil.rmtree(self.folder, ignore_errors=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class QuickHead(RayNodes):
    """Its head is one of ours, which is there sooner. It alone has the resource `home`."""

    def __init__(self) -> None:
        super().__init__()
        self._provider = LocalCluster()
        env = {**os.environ, **self.mark.environment()}
        settings = RaySettings(num_cpus=1, num_gpus=0, object_store_size=100_000_000, resources={"home": 1})
        head = self._provider.start(ClusterRequest(settings, uuid.uuid4().hex, env, self.folder / "head.log"))
        self.address, self.token = head.address, head.token

    def close(self) -> None:
        super().close()
        self._provider.close()


class HeadByHand(RayNodes):
    """`ray start --head`, with a server for clients (ray://)."""

    def __init__(self, *without: Path, options: Sequence[str] = (), **variables: str) -> None:
        super().__init__()
        self._held = HeldPorts(2)
        port, client_port = self._held.numbers
        port = next((int(option[len("--port=") :]) for option in options if option.startswith("--port=")), port)
        self.address, self.client_address = f"127.0.0.1:{port}", f"ray://127.0.0.1:{client_port}"
        ports = [f"--port={port}", f"--ray-client-server-port={client_port}", "--dashboard-agent-listen-port=0"]
        own = ["--head", *ports, "--include-dashboard=false", f"--temp-dir={self.folder}"]
        self._start(without, [*own, *_one_cpu(options), *_SIZES, *options], variables)
        try:
            self._wait_until_it_listens()
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        super().close()
        self._held.close()

    def _wait_until_it_listens(self) -> None:
        deadline = time.monotonic() + _READY_WITHIN_S * busyness()
        while not takes_connections(self.client_address):
            assert time.monotonic() < deadline, (self.folder / "node0.log").read_text()
            time.sleep(0.1)


class HeldPorts:
    """Ports of loopback that nobody else is given until it is closed. Ray may listen there, as it shares them."""

    def __init__(self, count: int) -> None:
        self._sockets = [socket.socket() for _ in range(count)]
        for one in self._sockets:
            one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            one.bind(("127.0.0.1", 0))
        self.numbers = [int(one.getsockname()[1]) for one in self._sockets]

    def close(self) -> None:
        for one in self._sockets:
            one.close()


def can_hide_folders() -> bool:
    command = [*_hiding([Path("/mnt")]), "true"]
    with suppress(OSError):
        return subprocess.run(command, capture_output=True, check=False).returncode == 0
    return False


def _one_cpu(options: Sequence[str]) -> list[str]:
    return [] if any(option.startswith("--num-cpus") for option in options) else ["--num-cpus=1"]


def _hiding(folders: Sequence[Path]) -> list[str]:
    mounts = "; ".join(f"mount -t tmpfs none '{folder}'" for folder in folders)
    return ["unshare", "--mount", "sh", "-c", f'set -e; {mounts}; exec "$@"', "sh"] if folders else []
