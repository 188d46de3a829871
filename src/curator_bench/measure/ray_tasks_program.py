"""The program that asks a Ray cluster what its tasks took, and its object store for disk: run by path, in the cluster's
interpreter.

It stands alone, and is no driver: it only calls services of the cluster, so no job or task of its own is among what it
reads. It calls them by hand, since the grpc library comes with ray[default] only, and a plain call is five frames of
HTTP/2 (RFC 9113, with literal headers of RFC 7541).
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
from typing import Any, Dict, List, Optional, Tuple

OWN_DIRECTORY = os.path.dirname(os.path.abspath(__file__))
ANSWERS_WITHIN_S = 10.0
REPORTED_EVERY_S = 1.0
"""How long Ray's workers and drivers gather events before they report them."""
LOOK_EVERY_S = 0.25
PATIENCE_S = 4.0
"""How long to wait after the end of the window for what is still on its way."""
MOST_SILENT = 0.5
"""How many tasks may have no times, for one that has. An actor that is killed takes those of its last second along, and
Ray Data kills the actors that look at its files."""
TIMES = {"task:execute": "execute", "task:deserialize_arguments": "deserialize", "task:store_outputs": "store"}
DISK = ("spill_time_total_s", "restore_time_total_s", "spilled_bytes_total")
FINISHED, DRIVER_TASK, ALIVE = 11, 3, 0
OWN_ACTORS = "CuratorBench"
"""What samples memory on the nodes of a cluster; its tasks are none of the benchmark's."""
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
        except Exception as error:  # whatever Ray raises is the answer
            answers.write(json.dumps({"failed": in_words(error)}) + "\n")


class Baseline:
    """What a cluster counted before the window, for all it counts from its own start."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._dropped = cluster.task_events().num_status_task_events_dropped
        self._disk, _ = disk_use(cluster)

    def compare(self, began_ns: int, ended_ns: int) -> Dict[str, Any]:
        """What fell into the window: `tasks` and `disk`, each None where the cluster does not tell, and `problems`."""
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
        """A look that has all there is: two looks agree and no task is missing, or patience is at its end."""
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

    def part_of(self, began_ns: int, ended_ns: int) -> Optional[float]:
        """The seconds of a time that lie in the window; None when all of it is before or after."""
        start, end = max(began_ns, self.began_ns), min(ended_ns, self.ended_ns)
        return (end - start) / 1e9 if start <= end else None

    def holds(self, moment_ns: int) -> bool:
        return self.began_ns <= moment_ns <= self.ended_ns


class View:
    """The tasks of one moment's answer that fall into the window."""

    def __init__(self, reply: Any, window: Window) -> None:
        self._window = window
        self._stored = len(reply.events_by_task)
        self.dropped = reply.num_status_task_events_dropped
        """Tasks forgotten since the cluster began, which keeps so many and no more. (That it drops other events says
        nothing: of a driver it keeps the first thousand, and each task that is submitted makes one.)"""
        self.seconds = dict.fromkeys(TIMES.values(), 0.0)
        self.executed = 0
        self.silent = 0
        """Tasks that have finished, while whoever executed them has not told of it."""
        for task in reply.events_by_task:
            if task.task_info.type != DRIVER_TASK and not task.task_info.func_or_class_name.startswith(OWN_ACTORS):
                self._add(task)

    def is_whole(self, forgotten: int) -> bool:
        """Whether the seconds are those of the tasks, but for a few.

        A cluster that somebody connected to knows at least of that; one that knows nothing was told not to.
        """
        return self._stored > 0 and not forgotten and self.silent <= MOST_SILENT * self.executed

    def same_as(self, other: View) -> bool:
        return (self.seconds, self.executed) == (other.seconds, other.executed)

    def problems(self, forgotten: int) -> List[str]:
        if not self._stored:
            return ["the cluster keeps no events of tasks"]
        if forgotten:
            return [f"Ray forgot the events of {forgotten} tasks to keep those of later ones"]
        if self.silent:
            return [
                f"of {self.silent} tasks Ray knows no times (their workers were killed), of {self.executed} it does"
            ]
        return []

    def _add(self, task: Any) -> None:
        told = {event.event_name for event in task.profile_events.events}
        for event in task.profile_events.events:
            name = TIMES.get(event.event_name)
            part = self._window.part_of(event.start_time, event.end_time) if name else None
            if name and part is not None:
                self.seconds[name] += part
                self.executed += name == "execute"
        if "task:execute" not in told and self._window.holds(task.state_updates.state_ts_ns.get(FINISHED, 0)):
            self.silent += 1


def wait_until(moment_ns: int, after_s: float) -> None:
    time.sleep(max(0.0, after_s - (time.time_ns() - moment_ns) / 1e9))


Disk = Dict[str, Dict[str, float]]


def disk_use(cluster: Cluster) -> Tuple[Optional[Disk], str]:
    """By node, what its object store has written and read since it began; None where a node does not answer."""
    try:
        return {node: cluster.disk_use(address) for node, address in cluster.nodes()}, ""
    except Exception as error:  # the tasks can be told all the same
        return None, f"the object store does not tell what it wrote to disk: {in_words(error)}"


def difference(before: Optional[Disk], after: Optional[Disk]) -> Optional[Dict[str, float]]:
    """None also where a node has gone: what it wrote is not known any more."""
    if before is None or after is None or not set(before) <= set(after):
        return None
    total: Dict[str, float] = collections.defaultdict(float)
    for node, use in after.items():
        for name, amount in use.items():
            total[name] += amount - before.get(node, {}).get(name, 0.0)
    return total


class Cluster:
    """The services of a cluster that are asked here."""

    def __init__(self, address: str) -> None:
        self._messages: Any = importlib.import_module("ray.core.generated.gcs_service_pb2")
        self._node_messages: Any = importlib.import_module("ray.core.generated.node_manager_pb2")
        services: Any = importlib.import_module("ray._private.services")
        self._address = services.canonicalize_bootstrap_address_or_die(address)
        self._authorization = authorization()

    def task_events(self) -> Any:
        request, reply = self._messages.GetTaskEventsRequest(), self._messages.GetTaskEventsReply
        return self._call(self._address, "TaskInfoGcsService/GetTaskEvents", request, reply)

    def nodes(self) -> List[Tuple[str, str]]:
        """Identity and address of each living node."""
        request, reply = self._messages.GetAllNodeInfoRequest(), self._messages.GetAllNodeInfoReply
        found = self._call(self._address, "NodeInfoGcsService/GetAllNodeInfo", request, reply).node_info_list
        return [
            (node.node_id.hex(), f"{node.node_manager_address}:{node.node_manager_port}")
            for node in found
            if node.state == ALIVE
        ]

    def disk_use(self, address: str) -> Dict[str, float]:
        request = self._node_messages.GetNodeStatsRequest(include_memory_info=False)
        reply = self._node_messages.GetNodeStatsReply
        stats = self._call(address, "NodeManagerService/GetNodeStats", request, reply).store_stats
        return {name: float(getattr(stats, name)) for name in DISK}

    def _call(self, address: str, method: str, request: Any, reply: Any) -> Any:
        return reply.FromString(call(address, "/ray.rpc." + method, request.SerializeToString(), self._authorization))


def authorization() -> Dict[str, str]:
    """As Ray itself finds it: from the environment or a file, and none where it is not to be used."""
    raylet: Any = importlib.import_module("ray._raylet")
    if raylet.get_authentication_mode() != raylet.AuthenticationMode.TOKEN:
        return {}
    found = raylet.AuthenticationTokenLoader.instance().get_token_for_http_header()
    return {name.lower(): value for name, value in found.items()}


def call(address: str, path: str, message: bytes, headers: Dict[str, str]) -> bytes:
    """One unary call of gRPC; OSError when it is refused, unanswered or breaks off."""
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
                raise OSError("the call was broken off")
            if kind in (DATA, HEADERS) and flags & END_STREAM:
                return b"".join(pieces)


def read_frame(stream: Any) -> Tuple[int, int, bytes]:
    head = stream.read(9)
    payload = stream.read(int.from_bytes(head[:3], "big")) if len(head) == 9 else b""
    if len(head) < 9 or len(payload) < int.from_bytes(head[:3], "big"):
        raise OSError("the connection was closed")
    return head[3], head[4], payload


def frame(kind: int, flags: int, stream: int, payload: bytes) -> bytes:
    return len(payload).to_bytes(3, "big") + struct.pack(">BBI", kind, flags, stream) + payload


def literal(name: str, value: str) -> bytes:
    """A header that needs no table and no compression."""
    return b"\0" + b"".join(length(len(text)) + text for text in (name.encode(), value.encode()))


def length(number: int) -> bytes:
    """An integer with a prefix of 7 bits."""
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
