"""Program that asks a Ray cluster for the times of its tasks, and its object store for disk use.

It runs by path, in the cluster's interpreter, and imports nothing of ours. It is no driver: it only calls services of
the cluster, so it adds no job or task to what it reads. It makes the calls by hand, because the grpc library comes with
ray[default] only, and a plain call is five HTTP/2 frames (RFC 9113, with literal headers of RFC 7541).
"""

from __future__ import annotations

import collections
import importlib
import json
import os
import socket
import struct
import sys
import time
from typing import Any

OWN_DIRECTORY = os.path.dirname(os.path.abspath(__file__))
ANSWERS_WITHIN_S = 10.0
REPORTED_EVERY_S = 1.0
"""Interval at which Ray's workers and drivers report their events."""
LOOK_EVERY_S = 0.25
PATIENCE_S = 4.0
"""Wait after the end of the window for events still under way."""
MOST_SILENT = 0.5
"""Largest number of tasks without times, per task with times.

A killed actor loses the events of its last second, and Ray Data kills the actors that inspect its files.
"""
TIMES = {"task:execute": "execute", "task:deserialize_arguments": "deserialize", "task:store_outputs": "store"}
DISK = ("spill_time_total_s", "restore_time_total_s", "spilled_bytes_total")
FINISHED, DRIVER_TASK, ALIVE = 11, 3, 0
OWN_ACTORS = "CuratorBench"
"""Prefix of our memory actors. Their tasks are not the benchmark's."""
LARGEST_WINDOW = (1 << 31) - 1
DATA, HEADERS, RESET, SETTINGS, PING, GOAWAY, WINDOW_UPDATE = 0, 1, 3, 4, 6, 7, 8
END_STREAM = ACKNOWLEDGED = 1
END_HEADERS = 4


def main() -> None:
    sys.path[:] = [path for path in sys.path if path != OWN_DIRECTORY]
    with os.fdopen(int(sys.argv[1]), "w", buffering=1) as answers:
        os.set_inheritable(answers.fileno(), False)
        try:
            cluster = Cluster(os.environ["RAY_ADDRESS"])
            before = Baseline(cluster)
            answers.write(json.dumps({"ready": True}) + "\n")
            for line in sys.stdin:
                answers.write(json.dumps(before.compare(**json.loads(line))) + "\n")
        except Exception as error:  # any exception of Ray becomes the answer
            answers.write(json.dumps({"failed": in_words(error)}) + "\n")


class Baseline:
    """Counters of a cluster before the window. It counts from its own start."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._dropped = cluster.task_events().num_status_task_events_dropped
        self._disk, _ = disk_use(cluster)

    def compare(self, began_ns: int, ended_ns: int) -> dict[str, Any]:
        """Return `tasks` and `disk` of the window, each None if the cluster does not report it, and `problems`."""
        disk, problem = disk_use(self._cluster)
        window = Window(began_ns, ended_ns)
        view = self._settled(window)
        forgotten = view.dropped - self._dropped
        return {
            "tasks": {"count": view.executed, "silent": view.silent, **view.seconds}
            if view.is_whole(forgotten)
            else None,
            "disk": difference(self._disk, disk),
            "problems": [*view.problems(forgotten), *([problem] if problem else [])],
        }

    def _settled(self, window: Window) -> View:
        """Look until two looks agree and no task is missing, or patience runs out."""
        wait_until(window.ended_ns, REPORTED_EVERY_S + LOOK_EVERY_S)
        before = None
        while True:
            view = View(self._cluster.task_events(), window)
            settled = before is not None and view.same_as(before) and not view.silent
            if settled or time.time_ns() > window.ended_ns + PATIENCE_S * 1e9:
                return view
            before = view
            time.sleep(LOOK_EVERY_S)


class Window:
    def __init__(self, began_ns: int, ended_ns: int) -> None:
        self.began_ns = began_ns
        self.ended_ns = ended_ns

    def part_of(self, began_ns: int, ended_ns: int) -> float | None:
        """Seconds of a time span that lie in the window; None if all of it is outside."""
        start, end = max(began_ns, self.began_ns), min(ended_ns, self.ended_ns)
        return (end - start) / 1e9 if start <= end else None

    def holds(self, moment_ns: int) -> bool:
        return self.began_ns <= moment_ns <= self.ended_ns


class View:
    """Tasks of one answer that fall into the window."""

    def __init__(self, reply: Any, window: Window) -> None:
        self._window = window
        self._stored = len(reply.events_by_task)
        self.dropped = reply.num_status_task_events_dropped
        """Tasks forgotten since the cluster started, because it keeps a limited number.

        Other dropped events do not matter: it keeps the first thousand of a driver, and every submitted task makes one.
        """
        self.seconds = dict.fromkeys(TIMES.values(), 0.0)
        self.executed = 0
        self.silent = 0
        """Tasks that have finished, but whose worker has not reported the times."""
        for task in reply.events_by_task:
            if task.task_info.type != DRIVER_TASK and not task.task_info.func_or_class_name.startswith(OWN_ACTORS):
                self._add(task)

    def is_whole(self, forgotten: int) -> bool:
        """True if the seconds cover nearly all tasks.

        A cluster with a connected driver knows at least that driver. If it knows nothing, its events are switched off.
        """
        return self._stored > 0 and not forgotten and self.silent <= MOST_SILENT * self.executed

    def same_as(self, other: View) -> bool:
        return (self.seconds, self.executed) == (other.seconds, other.executed)

    def problems(self, forgotten: int) -> list[str]:
        if not self._stored:
            return ["the cluster stores no events of tasks"]
        if forgotten:
            return [f"Ray forgot the events of {forgotten} tasks to keep those of later ones"]
        if self.silent:
            return [
                f"Ray has no times of {self.silent} tasks (their workers were killed), and times of {self.executed}"
            ]
        return []

    def _add(self, task: Any) -> None:
        reported = {event.event_name for event in task.profile_events.events}
        for event in task.profile_events.events:
            name = TIMES.get(event.event_name)
            part = self._window.part_of(event.start_time, event.end_time) if name else None
            if name and part is not None:
                self.seconds[name] += part
                self.executed += name == "execute"
        if "task:execute" not in reported and self._window.holds(task.state_updates.state_ts_ns.get(FINISHED, 0)):
            self.silent += 1


def wait_until(moment_ns: int, after_s: float) -> None:
    time.sleep(max(0.0, after_s - (time.time_ns() - moment_ns) / 1e9))


Disk = dict[str, dict[str, float]]


def disk_use(cluster: Cluster) -> tuple[Disk | None, str]:
    """Read by node what its object store wrote and read since its start; None, with a reason, if a node does not
    answer."""
    try:
        return {node: cluster.disk_use(address) for node, address in cluster.nodes()}, ""
    except Exception as error:  # the tasks can still be reported
        return None, f"the object store does not report its use of the disk: {in_words(error)}"


def difference(before: Disk | None, after: Disk | None) -> dict[str, float] | None:
    """Subtract two disk uses; None if unknown, or if a node has gone and its use is lost."""
    if before is None or after is None or not set(before) <= set(after):
        return None
    total: dict[str, float] = collections.defaultdict(float)
    for node, use in after.items():
        for name, amount in use.items():
            total[name] += amount - before.get(node, {}).get(name, 0.0)
    return total


class Cluster:
    """The services of a cluster that are called here."""

    def __init__(self, address: str) -> None:
        self._messages: Any = importlib.import_module("ray.core.generated.gcs_service_pb2")
        self._node_messages: Any = importlib.import_module("ray.core.generated.node_manager_pb2")
        services: Any = importlib.import_module("ray._private.services")
        self._address = services.canonicalize_bootstrap_address_or_die(address)
        self._authorization = authorization()

    def task_events(self) -> Any:
        request, reply = self._messages.GetTaskEventsRequest(), self._messages.GetTaskEventsReply
        return self._call(self._address, "TaskInfoGcsService/GetTaskEvents", request, reply)

    def nodes(self) -> list[tuple[str, str]]:
        """List id and address of each living node."""
        request, reply = self._messages.GetAllNodeInfoRequest(), self._messages.GetAllNodeInfoReply
        found = self._call(self._address, "NodeInfoGcsService/GetAllNodeInfo", request, reply).node_info_list
        return [
            (node.node_id.hex(), f"{node.node_manager_address}:{node.node_manager_port}")
            for node in found
            if node.state == ALIVE
        ]

    def disk_use(self, address: str) -> dict[str, float]:
        request = self._node_messages.GetNodeStatsRequest(include_memory_info=False)
        reply = self._node_messages.GetNodeStatsReply
        stats = self._call(address, "NodeManagerService/GetNodeStats", request, reply).store_stats
        return {name: float(getattr(stats, name)) for name in DISK}

    def _call(self, address: str, method: str, request: Any, reply: Any) -> Any:
        return reply.FromString(call(address, "/ray.rpc." + method, request.SerializeToString(), self._authorization))


def authorization() -> dict[str, str]:
    """Authorization headers as Ray finds them, from the environment or a file; empty if tokens are off."""
    raylet: Any = importlib.import_module("ray._raylet")
    if raylet.get_authentication_mode() != raylet.AuthenticationMode.TOKEN:
        return {}
    found = raylet.AuthenticationTokenLoader.instance().get_token_for_http_header()
    return {name.lower(): value for name, value in found.items()}


def call(address: str, path: str, message: bytes, headers: dict[str, str]) -> bytes:
    """Make one unary gRPC call. Raises OSError if it is refused, unanswered or broken off."""
    host, _, port = address.rpartition(":")
    all_headers = {
        ":method": "POST",
        ":scheme": "http",
        ":path": path,
        ":authority": address,
        "content-type": "application/grpc",
        "te": "trailers",
        **headers,
    }
    with socket.create_connection((host.strip("[]"), int(port)), timeout=ANSWERS_WITHIN_S) as connection:
        connection.sendall(
            b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
            + frame(SETTINGS, 0, 0, struct.pack(">HI", 4, LARGEST_WINDOW))
            + frame(WINDOW_UPDATE, 0, 0, struct.pack(">I", LARGEST_WINDOW - 65535))
            + frame(HEADERS, END_HEADERS, 1, b"".join(literal(*header) for header in all_headers.items()))
            + frame(DATA, END_STREAM, 1, struct.pack(">BI", 0, len(message)) + message)
        )
        answer = read_answer(connection)
    if len(answer) < 5:
        raise OSError(f"{path} at {address} was refused")
    return answer[5:]


def read_answer(connection: socket.socket) -> bytes:
    pieces = []
    with connection.makefile("rb") as stream:
        while True:
            kind, flags, payload = read_frame(stream)
            if kind in (SETTINGS, PING) and not flags & ACKNOWLEDGED:
                connection.sendall(frame(kind, ACKNOWLEDGED, 0, payload if kind == PING else b""))
            elif kind == DATA:
                pieces.append(payload)
            elif kind in (RESET, GOAWAY):
                raise OSError("the call was interrupted")
            if kind in (DATA, HEADERS) and flags & END_STREAM:
                return b"".join(pieces)


def read_frame(stream: Any) -> tuple[int, int, bytes]:
    head = stream.read(9)
    payload = stream.read(int.from_bytes(head[:3], "big")) if len(head) == 9 else b""
    if len(head) < 9 or len(payload) < int.from_bytes(head[:3], "big"):
        raise OSError("the connection was closed")
    return head[3], head[4], payload


def frame(kind: int, flags: int, stream: int, payload: bytes) -> bytes:
    return len(payload).to_bytes(3, "big") + struct.pack(">BBI", kind, flags, stream) + payload


def literal(name: str, value: str) -> bytes:
    """Encode a header without tables and compression."""
    return b"\0" + b"".join(length(len(text)) + text for text in (name.encode(), value.encode()))


def length(number: int) -> bytes:
    """Encode an integer with a prefix of 7 bits."""
    if number < 127:
        return bytes([number])
    number, digits = number - 127, [127]
    while number >= 128:
        digits.append(number % 128 + 128)
        number //= 128
    return bytes([*digits, number])


def in_words(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"[:300]


if __name__ == "__main__":
    main()
