"""Program that asks a Ray cluster for the times of its tasks, and its object store for disk use.

It runs by path, in the cluster's interpreter, and imports nothing of ours. It is no driver: it only calls services of
the cluster, so it adds no job or task to what it reads. It makes the calls by hand, because the grpc library comes with
ray[default] only, and a plain call is five HTTP/2 frames (RFC 9113, with literal headers of RFC 7541).
"""

from __future__ import annotations

import collections
import contextlib
import importlib
import importlib.machinery
import json
import os
import re
import select
import socket
import struct
import sys
import time
import types
from collections.abc import Callable, Iterator
from typing import Any, Dict, List, Optional, Set, Tuple

MESSAGES = "ray.core.generated"
PLAIN_ADDRESS = re.compile(r"(\d+\.\d+\.\d+\.\d+|\[[0-9a-f:]+\]):\d+")
"""With a token in the environment, it needs nothing else of Ray."""
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
DISK = ("spill_time_total_s", "restore_time_total_s", "spilled_bytes_total", "restored_bytes_total")
SUBMITTED, AT_WORKER, RUNNING, FINISHED, FAILED = 1, 5, 8, 11, 12
NORMAL_TASK, ACTOR_CREATION, ACTOR_TASK, DRIVER_TASK = range(4)
ALIVE = 0
OWN_ACTORS = "CuratorBench"
"""Prefix of our memory actors. Their tasks are not the benchmark's."""
OF_RAY_DATA = ("_StatsActor.", "_AutoscalingCoordinatorActor.", "ActorLocationTracker.", "_UsageCollectionActor.")
"""Actors with which Ray Data looks after itself. They are no stages of a benchmark."""
OPERATOR_TASK, OPERATOR_ACTOR, OPERATOR_METHOD = "_map_task", "MapWorker(", ").submit"
MOST_STAGES = 500
WATCHED_EVERY_S = 1.0
WATCHING_SHARE = 0.005
"""Largest share of the time that is spent asking for the use of the object store."""
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
            before = Baseline(cluster, is_new="new" in sys.argv[2:])
            answers.write(json.dumps({"ready": True}) + "\n")
            for line in lines_of(sys.stdin.fileno(), before.note_store):
                question = json.loads(line)
                if question.pop("begin", False):
                    before.begin()
                    answers.write(json.dumps({"ready": True}) + "\n")
                else:
                    answers.write(json.dumps(before.compare(**question)) + "\n")
        except Exception as error:  # any exception of Ray becomes the answer
            answers.write(json.dumps({"failed": in_words(error)}) + "\n")


def lines_of(descriptor: int, in_silence: Callable[[], float]) -> Iterator[bytes]:
    """Yield lines as they arrive. In silence, call the function, which returns the seconds until it is called again."""
    unread, every_s = b"", WATCHED_EVERY_S
    while True:
        if b"\n" in unread:
            line, _, unread = unread.partition(b"\n")
            yield line
        elif not select.select([descriptor], [], [], every_s)[0]:
            every_s = in_silence()
        else:
            piece = os.read(descriptor, 65536)
            if not piece:
                return
            unread += piece


class Baseline:
    """Counters of a cluster before the window. It counts from its own start."""

    def __init__(self, cluster: Cluster, is_new: bool = False) -> None:
        self._cluster = cluster
        self.begin(is_new)

    def begin(self, is_new: bool = False) -> None:
        """Take the present counters, or those of a cluster that has only just started."""
        cluster = self._cluster
        events = None if is_new else cluster.task_events()
        self._dropped = events.num_status_task_events_dropped if events else 0
        self._untold = untold(events) if events else 0
        self._disk: Optional[Disk] = {} if is_new else disk_use(cluster)[0]
        self._peak: Optional[float] = None

    def note_store(self) -> float:
        """Note the use of the object stores; return when to do so again."""
        began = time.monotonic()
        with contextlib.suppress(Exception):  # a node that does not answer is asked again
            used = self._cluster.store_use()
            if used is not None:
                self._peak = used if self._peak is None else max(self._peak, used)
        return max(WATCHED_EVERY_S, (time.monotonic() - began) / WATCHING_SHARE)

    def compare(self, began_ns: int, ended_ns: int, is_over: bool = False) -> Dict[str, Any]:
        """Return `tasks` and `disk` of the window, each None if the cluster does not report it, and `problems`.

        `is_over` says that the driver has ended, so that nothing of it is reported later.
        """
        self.note_store()
        disk, problem = disk_use(self._cluster)
        window = Window(began_ns, ended_ns)
        if is_over and not self._cluster.has_driver_since(began_ns):
            return {"tasks": None, "stages": [], "store_peak": self._peak, "disk": difference(self._disk, disk)}
        view = self._settled(window, is_over)
        forgotten = max(0, view.dropped - self._dropped)
        return {
            "tasks": {"count": view.executed, "silent": view.silent, **view.seconds}
            if view.is_whole(forgotten)
            else None,
            "stages": [] if forgotten else view.stages(),
            "forgotten": forgotten,
            "store_peak": self._peak,
            "disk": difference(self._disk, disk),
            "problems": [*view.problems(forgotten), *([problem] if problem else [])],
        }

    def _settled(self, window: Window, is_over: bool) -> View:
        """Look until two looks agree and no task is missing that somebody could still report, or patience runs out."""
        wait_until(window.ended_ns, LOOK_EVERY_S if is_over else REPORTED_EVERY_S + LOOK_EVERY_S)
        patience_s = REPORTED_EVERY_S + LOOK_EVERY_S if is_over else PATIENCE_S
        before = None
        while True:
            events = self._cluster.task_events()
            view = View(events, window)
            is_awaited = bool(view.silent)
            if is_over:
                view.silent += max(0, untold(events) - self._untold)
                is_awaited = is_awaited and not view.silent_workers.isdisjoint(self._cluster.living_workers())
            settled = before is not None and view.same_as(before) and not is_awaited
            if settled or time.time_ns() > window.ended_ns + patience_s * 1e9:
                return view
            before = view
            time.sleep(LOOK_EVERY_S)


class Window:
    def __init__(self, began_ns: int, ended_ns: int) -> None:
        self.began_ns = began_ns
        self.ended_ns = ended_ns

    def part_of(self, began_ns: int, ended_ns: int) -> Optional[float]:
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
        self._stages: Dict[Tuple[str, str], StageSum] = {}
        self.silent = 0
        """Tasks that have finished, but whose worker has not reported the times. A script adds those without names."""
        self.silent_workers: Set[bytes] = set()
        operators = {
            task.task_info.name for task in reply.events_by_task if task.task_info.func_or_class_name == OPERATOR_TASK
        }
        for task in reply.events_by_task:
            found = stage_of(task, operators) if task.task_info.type != DRIVER_TASK else None
            if found is not None:
                self._stages.setdefault(found, StageSum(found)).add(task, window)
            if task.task_info.type != DRIVER_TASK and not task.task_info.func_or_class_name.startswith(OWN_ACTORS):
                self._add(task)

    def is_whole(self, forgotten: int) -> bool:
        """True if the seconds cover nearly all tasks.

        A cluster with a connected driver knows at least that driver. If it knows nothing, its events are switched off.
        """
        return self._stored > 0 and not forgotten and self.silent <= MOST_SILENT * self.executed

    def stages(self) -> List[Dict[str, Any]]:
        """The stages that were executed, with those that took longest first."""
        found = [stage.figures(self._window) for stage in self._stages.values() if stage.count or stage.failures]
        return sorted(found, key=lambda stage: -(stage["executing"] or 0.0))[:MOST_STAGES]

    def same_as(self, other: View) -> bool:
        return (self.seconds, self.executed) == (other.seconds, other.executed)

    def problems(self, forgotten: int) -> List[str]:
        if not self._stored:
            return ["the cluster stores no events of tasks"]
        if forgotten:
            return [
                f"Ray forgot the events of {forgotten} tasks to keep those of later ones, so the stages are unknown; "
                "RAY_task_events_max_num_task_in_gcs of the cluster sets how many it keeps"
            ]
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
            self.silent_workers.add(task.state_updates.worker_id)


def untold(events: Any) -> int:
    """Number of tasks that Ray keeps to itself, as it does not know their names: who started them ended too early."""
    return int(getattr(events, "num_filtered_on_gcs", 0))


def stage_of(task: Any, operators: Set[str]) -> Optional[Tuple[str, str]]:
    """Kind and name of the stage a task belongs to; None for tasks that are nobody's.

    Ray loses what the owner of a task told last. Then its worker's profile has a name, but not what kind of task it is.
    """
    info = task.task_info
    name, kind = info.func_or_class_name, "actor" if info.type in (ACTOR_CREATION, ACTOR_TASK) else "task"
    if not name:
        name = next((event.event_name[1:] for event in task.profile_events.events if event.event_name[:1] == ":"), "")
        if name.endswith(".__init__"):
            name = name.rpartition(":")[2]  # an actor with a name has it in front
        kind = "operator" if name in operators else "actor" if "." in name else "task"
    elif name == OPERATOR_TASK:
        name, kind = info.name, "operator"
    if name.startswith(OPERATOR_ACTOR) and not name.endswith(".__init__"):
        is_method = name.endswith(OPERATOR_METHOD)
        return ("operator", name[len(OPERATOR_ACTOR) : -len(OPERATOR_METHOD)]) if is_method else None
    is_nobodys = not name or name.startswith(OWN_ACTORS) or name.startswith(OF_RAY_DATA)
    return None if is_nobodys else (kind, name)


class StageSum:
    """Sums of the tasks of one stage."""

    def __init__(self, key: Tuple[str, str]) -> None:
        self.kind, self.name = key
        self.count = self.failures = 0
        self._retries = self._times_missing = self._waits_missing = 0
        self._seconds = dict.fromkeys(TIMES.values(), 0.0)
        self._waiting = 0.0
        self._spans: List[Tuple[int, int]] = []

    def add(self, task: Any, window: Window) -> None:
        states = task.state_updates.state_ts_ns
        is_executed = self._add_times(task, states, window)
        has_failed = window.holds(states.get(FAILED, 0))
        self.count += is_executed
        self.failures += has_failed
        self._retries += (is_executed or has_failed) and task.attempt_number > 0
        if is_executed:
            self._add_wait(states)

    def _add_times(self, task: Any, states: Any, window: Window) -> bool:
        """Add the times of an execution; false if it is not of the window."""
        found = False
        for event in task.profile_events.events:
            name = TIMES.get(event.event_name)
            part = window.part_of(event.start_time, event.end_time) if name else None
            if name and part is not None:
                self._seconds[name] += part
                if name == "execute":
                    found = True
                    self._spans.append((event.start_time, event.end_time))
        if found or any(event.event_name == "task:execute" for event in task.profile_events.events):
            return found
        return self._add_states(states, window)

    def _add_states(self, states: Any, window: Window) -> bool:
        """Take the times of a task whose worker was killed before it reported them. Operators wait while they run."""
        began, ended = states.get(RUNNING, 0), states.get(FINISHED, 0) or states.get(FAILED, 0)
        if began and ended and self.kind != "operator":
            part = window.part_of(began, ended)
            if part is not None:
                self._seconds["execute"] += part
                self._spans.append((began, ended))
            return part is not None
        if not began and not states.get(FINISHED, 0) and not states.get(AT_WORKER, 0):
            return False  # it failed before any worker had it
        is_executed = window.holds(began or ended)
        self._times_missing += is_executed
        return is_executed

    def _add_wait(self, states: Any) -> None:
        submitted, began = states.get(SUBMITTED, 0), states.get(RUNNING, 0)
        if submitted and began:
            self._waiting += max(0, began - submitted) / 1e9
        else:
            self._waits_missing += 1

    def figures(self, window: Window) -> Dict[str, Any]:
        is_timed = self.count > self._times_missing
        spans = united(self._spans)
        return {
            "kind": self.kind,
            "name": self.name,
            "count": self.count,
            "started": (spans[0][0] - window.began_ns) / 1e9 if spans else None,
            "ended": (spans[-1][1] - window.began_ns) / 1e9 if spans else None,
            "active": sum(window.part_of(*span) or 0.0 for span in spans) if spans else None,
            "executing": self._seconds["execute"] if is_timed else None,
            "reading": self._seconds["deserialize"] if is_timed else None,
            "storing": self._seconds["store"] if is_timed else None,
            "waiting": self._waiting if self.count > self._waits_missing else None,
            "times_missing": self._times_missing,
            "waits_missing": self._waits_missing,
            "retries": self._retries,
            "failures": self.failures,
        }


def united(spans: List[Tuple[int, int]]) -> List[Tuple[int, int]]:
    """Spans in order, with overlapping ones as one."""
    found: List[Tuple[int, int]] = []
    for began, ended in sorted(spans):
        if found and began <= found[-1][1]:
            found[-1] = (found[-1][0], max(found[-1][1], ended))
        else:
            found.append((began, ended))
    return found


def wait_until(moment_ns: int, after_s: float) -> None:
    time.sleep(max(0.0, after_s - (time.time_ns() - moment_ns) / 1e9))


Disk = Dict[str, Dict[str, float]]


def disk_use(cluster: Cluster) -> Tuple[Optional[Disk], str]:
    """Read by node what its object store wrote and read since its start; None, with a reason, if a node does not
    answer."""
    try:
        return {node: cluster.disk_use(address) for node, address in cluster.nodes()}, ""
    except Exception as error:  # the tasks can still be reported
        return None, f"the object store does not report its use of the disk: {in_words(error)}"


def difference(before: Optional[Disk], after: Optional[Disk]) -> Optional[Dict[str, float]]:
    """Subtract two disk uses; None if unknown, if no node is known, or if a node has gone and its use is lost."""
    if before is None or not after or not set(before) <= set(after):
        return None
    total: Dict[str, float] = collections.defaultdict(float)
    for node, use in after.items():
        for name, amount in use.items():
            total[name] += amount - before.get(node, {}).get(name, 0.0)
    return total


class Cluster:
    """The services of a cluster that are called here."""

    def __init__(self, address: str) -> None:
        headers = plain_authorization() if PLAIN_ADDRESS.fullmatch(address) else {}
        self._messages, self._node_messages = messages(alone=bool(headers))
        if not headers:
            services: Any = importlib.import_module("ray._private.services")
            address, headers = services.canonicalize_bootstrap_address_or_die(address), authorization()
        self._address, self._authorization = address, headers

    def task_events(self) -> Any:
        request, reply = self._messages.GetTaskEventsRequest(), self._messages.GetTaskEventsReply
        return self._call(self._address, "TaskInfoGcsService/GetTaskEvents", request, reply)

    def has_driver_since(self, moment_ns: int) -> bool:
        """True if a driver connected after this moment, or might have."""
        request = self._messages.GetAllJobInfoRequest()
        request.skip_submission_job_info_field = request.skip_is_running_tasks_field = True
        reply = self._call(self._address, "JobInfoGcsService/GetAllJobInfo", request, self._messages.GetAllJobInfoReply)
        return any(job.start_time * 1e6 >= moment_ns - 1e9 for job in reply.job_info_list)

    def living_workers(self) -> Set[bytes]:
        request, reply = self._messages.GetAllWorkerInfoRequest(), self._messages.GetAllWorkerInfoReply
        request.filters.is_alive = True
        found = self._call(self._address, "WorkerInfoGcsService/GetAllWorkerInfo", request, reply)
        return {worker.worker_address.worker_id for worker in found.worker_table_data}

    def nodes(self) -> List[Tuple[str, str]]:
        """List id and address of each living node."""
        request, reply = self._messages.GetAllNodeInfoRequest(), self._messages.GetAllNodeInfoReply
        found = self._call(self._address, "NodeInfoGcsService/GetAllNodeInfo", request, reply).node_info_list
        return [
            (node.node_id.hex(), f"{node.node_manager_address}:{node.node_manager_port}")
            for node in found
            if node.state == ALIVE
        ]

    def disk_use(self, address: str) -> Dict[str, float]:
        stats = self._store_stats(address)
        return {name: float(getattr(stats, name)) for name in DISK}

    def store_use(self) -> Optional[int]:
        """Bytes that the object stores of all nodes hold in memory; None if no node is known."""
        used = [int(self._store_stats(address).object_store_bytes_used) for _, address in self.nodes()]
        return sum(used) if used else None

    def _store_stats(self, address: str) -> Any:
        request = self._node_messages.GetNodeStatsRequest(include_memory_info=False)
        reply = self._node_messages.GetNodeStatsReply
        return self._call(address, "NodeManagerService/GetNodeStats", request, reply).store_stats

    def _call(self, address: str, method: str, request: Any, reply: Any) -> Any:
        return reply.FromString(call(address, "/ray.rpc." + method, request.SerializeToString(), self._authorization))


def messages(alone: bool) -> List[Any]:
    """Import the messages of Ray's services; `alone` without the rest of `ray`, which takes ten times as long."""
    if alone:
        for name, folder in packages_of_messages().items():
            package = sys.modules[name] = types.ModuleType(name)
            package.__path__ = [folder]
    try:
        return [importlib.import_module(f"{MESSAGES}.{name}") for name in ("gcs_service_pb2", "node_manager_pb2")]
    except ImportError:
        if not alone:
            raise
    for name in packages_of_messages():
        del sys.modules[name]
    return messages(alone=False)


def packages_of_messages() -> Dict[str, str]:
    """Return the folders of the packages around the messages."""
    ray, *below = MESSAGES.split(".")
    found = importlib.machinery.PathFinder.find_spec(ray)
    if found is None or not found.submodule_search_locations:
        return {}
    folder = found.submodule_search_locations[0]
    return {".".join([ray, *below[:depth]]): os.path.join(folder, *below[:depth]) for depth in range(len(below) + 1)}


def plain_authorization() -> Dict[str, str]:
    """Return the header for a token in the environment; empty if there is none."""
    token = os.environ.get("RAY_AUTH_TOKEN", "").strip()
    return {"authorization": f"Bearer {token}"} if token and os.environ.get("RAY_AUTH_MODE") == "token" else {}


def authorization() -> Dict[str, str]:
    """Authorization headers as Ray finds them, from the environment or a file; empty if tokens are off."""
    raylet: Any = importlib.import_module("ray._raylet")
    if raylet.get_authentication_mode() != raylet.AuthenticationMode.TOKEN:
        return {}
    found = raylet.AuthenticationTokenLoader.instance().get_token_for_http_header()
    return {name.lower(): value for name, value in found.items()}


def call(address: str, path: str, message: bytes, headers: Dict[str, str]) -> bytes:
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


def read_frame(stream: Any) -> Tuple[int, int, bytes]:
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
