"""The fleet as the pytest process sees it: orders go in, events come out. A child process speaks to Ray."""

from __future__ import annotations

import os
import queue
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from pathlib import Path

from curator_bench.cluster.environment import without_pytest, without_ray
from curator_bench.cluster.health import is_alive, last_log_lines
from curator_bench.cluster.model import Cluster, ClusterRequest
from curator_bench.errors import ClusterError
from curator_bench.execution.workbench import Workbench
from curator_bench.files import safe_files
from curator_bench.files.json_files import tail
from curator_bench.fleet.messages import (
    Broken,
    Command,
    Event,
    Kill,
    Leave,
    Lost,
    Node,
    NodeNames,
    Nodes,
    NotConnected,
    Notice,
    Order,
    Request,
    Reserve,
    Stop,
)
from curator_bench.measure.processes import Mark
from curator_bench.package import SOURCE
from curator_bench.values import Ended, RaySettings, Where

LOCAL = "local"
_OBJECT_STORE_BYTES = 100_000_000
_CONNECTED_WITHIN_S, _CLIENT_CONNECTED_WITHIN_S = 90.0, 180.0
_SAYS_GOOD_BYE_WITHIN_S = 0.5
_CLIENT_SAYS_GOOD_BYE_WITHIN_S = 10.0
_LOG_LINES = 12
_RUNS_ARE_NOT_RAYS = {
    # A worker that Ray ended for want of memory would not be the one that took it.
    "RAY_memory_monitor_refresh_ms": "0",
    # The guard ends what ran under a worker, and first looks what that holds in shared memory.
    "RAY_kill_child_processes_on_worker_exit": "0",
}


@dataclass(frozen=True, slots=True)
class FleetSettings:
    """The user's options for the fleet."""

    address: str = LOCAL
    cpus: float | None = None
    gpus: tuple[str, ...] | None = None
    """The GPUs of this machine that it may use, as in CUDA_VISIBLE_DEVICES; None for all."""
    resources: dict[str, float] = field(default_factory=dict)
    """Custom resources of a local fleet: of each, as much as the most demanding entry asks for."""

    @property
    def is_local(self) -> bool:
        return self.address == LOCAL

    @property
    def is_client(self) -> bool:
        return self.address.startswith("ray://")


class Fleet:
    """A started fleet, to be used from one thread. After `close` or the event Broken it takes no orders."""

    def __init__(self, settings: FleetSettings, bench: Workbench, log_dir: Path) -> None:
        self.nodes: tuple[Node, ...] = ()
        self._names = NodeNames()
        self.notes: list[str] = []
        """Lines for the user."""
        self._settings, self._bench, self._log_dir = settings, bench, log_dir
        self._events: queue.SimpleQueue[Event | None] = queue.SimpleQueue()
        self._under_way: dict[str, Order] = {}
        self._open = ExitStack()
        self._broken = False
        self._unreadable = ""
        """The reason why a message of the driver could not be read."""

    def start(self, request: Request | None = None) -> None:
        """Start or connect to the cluster and wait for its nodes; raises ClusterError."""
        request = request or Request()
        with ExitStack() as undo:
            if request.shipment is not None:
                undo.callback(request.shipment.close)
            self._cluster = undo.enter_context(self._bench.clusters.cluster(self._cluster_request()))
            self._connection, self._process = undo.enter_context(self._driver(self._cluster))
            self._connection.send(request)
            threading.Thread(target=self._listen, name="curator-bench fleet", daemon=True).start()
            self._await_nodes()
            self._open = undo.pop_all()

    def submit(self, order: Order) -> None:
        self._under_way[order.uid] = order
        self._send(order)

    def stop(self, uid: str) -> None:
        self._send(Stop(uid))

    def kill(self, uid: str) -> None:
        self._send(Kill(uid))

    def reserve(self, node: str, gpu: str) -> None:
        self._send(Reserve(node, gpu))

    def next_event(self, within_s: float) -> Event | None:
        """Wait for the next event; None if there was none in time."""
        if self._broken:
            return self._next_loss()
        try:
            event = self._events.get(timeout=within_s)
        except queue.Empty:
            self._broken = bool(self._cluster.processes) and not is_alive(self._cluster)
            return None
        match event:
            case None:
                self._broken = True
                return None
            case Nodes(nodes):
                self.nodes = self._names.named(nodes)
            case Notice(text):
                self.notes.append(text)
            case Ended(uid) | Lost(uid):
                self._under_way.pop(uid, None)
        return event

    def close(self) -> None:
        """End the driver and, if we started it, the cluster with all that runs on it."""
        self._open.close()

    def name_of(self, where: Where) -> str:
        """The name of a run's node for the user, also if the node has died."""
        return self._names.name_of(where)

    def _next_loss(self) -> Event:
        why = self._why_broken()
        for uid in self._under_way:
            del self._under_way[uid]
            return Lost(uid, why, with_all=True)
        return Broken(why)

    def _why_broken(self) -> str:
        lines = tail(self._log_dir / "driver.log", _LOG_LINES)
        if not is_alive(self._cluster):
            what, lines = f"the fleet's cluster at {self._cluster.address} is gone", last_log_lines(self._cluster)
        elif self._unreadable:
            what = f"a message of the fleet's driver cannot be read: {self._unreadable}"
        else:
            what = "the driver of the fleet has ended"
        return "\n".join([what, *(f"    {line}" for line in lines)])

    def _cluster_request(self) -> ClusterRequest:
        env = dict(os.environ)
        if self._settings.gpus is not None:
            env["CUDA_VISIBLE_DEVICES"] = ",".join(self._settings.gpus)
        return ClusterRequest(
            settings=_ray_settings(self._settings),
            marker=self._bench.marker,
            env=env,
            log_path=self._log_dir / "ray_startup.log",
            copy_logs_to=self._log_dir / "ray_cluster",
            entry_env=_RUNS_ARE_NOT_RAYS,
            address_came_from="--bench-fleet",
        )

    @contextmanager
    def _driver(
        self, cluster: Cluster
    ) -> Iterator[tuple[Connection[Command | Request, Event], subprocess.Popen[bytes]]]:
        ours, theirs = Pipe()
        source = str(SOURCE)
        env = {**without_pytest(without_ray(os.environ)), **cluster.env, **Mark(self._bench.marker).environment()}
        env["RAY_OVERRIDE_RUNTIME_ENV_DEFAULT_EXCLUDES"] = ""  # what is sent is chosen by us (code_shipping.py)
        env["PYTHONPATH"] = os.pathsep.join(filter(None, [source, env.get("PYTHONPATH", "")]))
        program = [sys.executable, "-P", "-m", "curator_bench.fleet.driver_program", str(theirs.fileno())]
        self._log_dir.mkdir(parents=True, exist_ok=True)
        with theirs, safe_files.open_to_append(self._log_dir / "driver.log") as log:
            process = subprocess.Popen(
                program,
                env=env,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                pass_fds=[theirs.fileno()],
                start_new_session=True,
            )
        try:
            yield ours, process
        finally:
            with suppress(OSError):  # closing our end is not seen there while our thread listens to it
                ours.send(Leave())
            with suppress(subprocess.TimeoutExpired):
                process.wait(_CLIENT_SAYS_GOOD_BYE_WITHIN_S if self._settings.is_client else _SAYS_GOOD_BYE_WITHIN_S)
            process.kill()
            process.wait()
            ours.close()

    def _listen(self) -> None:
        """Receive events in a thread of its own, so that a signal in the main thread cannot cut one in two."""
        try:
            while True:
                self._events.put(self._connection.recv())
        except (EOFError, OSError, TypeError):  # closed under it, by the other side or by ours
            pass
        except Exception as error:  # a message was cut off, or is of another version
            self._unreadable = f"{type(error).__name__}: {error}"
        finally:
            self._events.put(None)

    def _await_nodes(self) -> None:
        within_s = _CLIENT_CONNECTED_WITHIN_S if self._settings.is_client else _CONNECTED_WITHIN_S
        deadline = time.monotonic() + within_s
        while not self.nodes:
            event = self.next_event(max(0.0, min(1.0, deadline - time.monotonic())))
            if isinstance(event, NotConnected):
                raise ClusterError(f"--bench-fleet {self._settings.address}: {_advice(event.reason, self._settings)}")
            if isinstance(event, Broken):
                raise ClusterError(f"--bench-fleet {self._settings.address}: {event.reason}")
            if time.monotonic() > deadline:
                raise ClusterError(
                    f"--bench-fleet {self._settings.address}: no answer within {within_s:g} s;"
                    f" see {self._log_dir / 'driver.log'}"
                )

    def _send(self, command: Command) -> None:
        with suppress(OSError):  # a driver that has ended is told by its end of the connection
            self._connection.send(command)


def _ray_settings(settings: FleetSettings) -> RaySettings:
    if not settings.is_local:
        return RaySettings(address=settings.address)
    return RaySettings(
        num_cpus=settings.cpus,
        num_gpus=None if settings.gpus is None else float(len(settings.gpus)),
        resources=settings.resources,
        object_store_size=_OBJECT_STORE_BYTES,
        enable_object_spilling=False,
    )


def _advice(reason: str, settings: FleetSettings) -> str:
    if settings.is_client or settings.is_local:
        return reason
    return f"{reason}\n(HOST:PORT is for a cluster that this machine is a node of; else use ray://HOST:10001)"
