"""The driver of a fleet: the only process of an invocation that connects to the fleet's cluster (see fleet.py).

Argument: the descriptor of its end of the connection to the pytest process. It receives a Request, then commands; it
sends events. Its environment has the cluster's address and token. It ends when the connection does.
"""

from __future__ import annotations

import importlib
import os
import queue
import sys
import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from multiprocessing.connection import Connection
from typing import Any

from curator_bench.fleet.board import Board
from curator_bench.fleet.code_shipping import Sending, Shipment, ask_nodes, runtime_env, what_to_send
from curator_bench.fleet.file_transfer import Arrivals, Piece, Problems
from curator_bench.fleet.gpu_reservations import GpuReservations
from curator_bench.fleet.messages import (
    Command,
    Event,
    Kill,
    Leave,
    Lost,
    Node,
    Nodes,
    NotConnected,
    Notice,
    Order,
    Request,
    Reserve,
    Stop,
    name_of_node,
)
from curator_bench.fleet.node_task import run_on_node
from curator_bench.values import Began, Ended, Progressed

_LOOK_AT_NODES_EVERY_S = 2.0
_TRIED_AGAIN_AFTER_S = 0.5
_RAY_CLIENT = "ray://"
_CLIENT_ATTEMPTS = 2
_SENDS_FILES_WITHIN_S = 60.0
_OF_A_CLIENT, _TO_COME = "all nodes", "nodes to come"
_ON_THE_HEAD = {"node:__internal_head__": 0.001}
_NAMESPACE = "curator-bench-fleet"


@dataclass(slots=True)
class _Task:
    order: Order
    answer: Any


def main() -> None:
    os.chdir(os.sep)  # Ray lets workers import from a driver's folder, where others may have planted modules
    connection: Connection[Event, Command | Request] = Connection(int(sys.argv[1]))
    request = connection.recv()
    assert isinstance(request, Request)
    try:
        driver = Driver(connection.send, request)
    except Exception as error:  # whatever Ray raises is the answer
        connection.send(NotConnected(f"{type(error).__name__}: {error}"))
        os._exit(1)
    threading.Thread(target=driver.listen, args=(connection.recv,), daemon=True).start()
    driver.serve()
    driver.leave()
    os._exit(0)


class Driver:
    """One loop: all commands, answers and timers come through one queue, so nothing needs a lock."""

    def __init__(self, tell: Callable[[Event], None], request: Request) -> None:
        self._ray: Any = importlib.import_module("ray")
        self._tell = tell
        self._happenings: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._is_client = os.environ.get("RAY_ADDRESS", "").startswith(_RAY_CLIENT)
        self._tasks: dict[str, _Task] = {}
        self._reported_nodes: tuple[Node, ...] = ()
        self._shipment, self._unasked = request.shipment, _TO_COME if request.more_nodes_may_come else ""
        if self._is_client:
            self._connect_as_client()
        else:
            self._connect()
            sending = self._choose_what_to_send()
            if sending.code or sending.files:  # Ray takes folders only when a driver connects
                self._ray.shutdown()
                with runtime_env(self._shipment or Shipment(), sending) as env:
                    self._connect(runtime_env=env)
        self._packed = self._ray.put(self._shipment)
        self._run: Any = self._ray.remote(run_on_node)
        self._board: Any = self._ray.remote(Board).options(**self._beside_us()).remote()
        self._ray.get(self._board.stop.remote(""))  # it is there before the first run has something to tell
        self._reservations = GpuReservations(self._ray, self._when_done, self._later)
        self._look_at_nodes()
        self._arrivals = Arrivals()
        self._ask_for_news()
        self._ask_for_parcels({})

    def _beside_us(self) -> dict[str, Any]:
        """Return options that put the board on our node (for a client: on the head), so that it survives other nodes.

        If it dies itself, Ray restarts it, and a few reports are lost.
        """
        options: dict[str, Any] = {"num_cpus": 0, "max_restarts": -1, "max_task_retries": -1, "max_concurrency": 10_000}
        if self._is_client:
            return {**options, "resources": _ON_THE_HEAD}
        return {**options, "label_selector": {"ray.io/node-id": self._ray.get_runtime_context().get_node_id()}}

    def _choose_what_to_send(self) -> Sending:
        """Ask all nodes what they lack, and tell the user what is sent."""
        if self._shipment is None:
            return Sending()
        hosts = {node["NodeID"]: node["NodeManagerHostname"] for node in filter(_lives, self._ray.nodes())}
        names = {
            node: name_of_node(host, node, [other for other in hosts if hosts[other] == host])
            for node, host in hosts.items()
        }
        self._shipment, sending = ask_nodes(self._ray, self._shipment, names, self._unasked)
        self._note(sending.words)
        return sending

    def _connect_as_client(self) -> None:
        """Send everything: asking first needs a second connection, which Ray's server does not always survive."""
        shipment = self._shipment or Shipment()
        sending = what_to_send(shipment, {}, _OF_A_CLIENT)
        with runtime_env(shipment, sending) as env:
            for attempt in range(1, _CLIENT_ATTEMPTS + 1):
                try:
                    self._connect(runtime_env=env)
                    break
                except ConnectionAbortedError:
                    if attempt == _CLIENT_ATTEMPTS:
                        raise
        self._shipment = shipment.as_sent(sending.files)
        self._note(sending.words)

    def _note(self, words: Iterable[str]) -> None:
        for text in words:
            self._tell(Notice(text))

    def _connect(self, **options: Any) -> None:
        self._ray.init(namespace=_NAMESPACE, log_to_driver=False, logging_level="ERROR", **options)

    def listen(self, hear: Callable[[], Command | Request]) -> None:
        """Receive commands, in a thread of its own, until Leave or the end of the connection."""
        while True:
            try:
                command = hear()
            except (EOFError, OSError):
                command = Leave()
            if isinstance(command, Leave):
                self._happenings.put(None)
                return
            self._happenings.put(partial(self._grant, command))

    def serve(self) -> None:
        while True:
            try:
                happening = self._happenings.get(timeout=_LOOK_AT_NODES_EVERY_S)
            except queue.Empty:
                happening = self._look_at_nodes
            if happening is None:
                return
            happening()

    def leave(self) -> None:
        """Disconnect a client: otherwise Ray keeps its tasks and actors for half a minute. Others just end."""
        if self._is_client:
            self._ray.shutdown()

    def _grant(self, command: Command | Request) -> None:
        match command:
            case Order():
                self._start(command)
            case Stop(uid):
                self._stop(uid)
            case Kill(uid):
                self._kill(uid)
            case Reserve(node, gpu):
                self._reservations.reserve(node, gpu)

    def _start(self, order: Order) -> None:
        asked = order.slice
        options: dict[str, Any] = {
            "num_cpus": asked.num_cpus,
            "num_gpus": asked.num_gpus,
            "memory": asked.memory,
            "resources": dict(asked.resources) or None,
            "max_retries": 0,
            "name": order.plan.name,
            "scheduling_strategy": "SPREAD",
        }
        if order.only_on:
            options["label_selector"] = {"ray.io/node-id": f"in({','.join(sorted(order.only_on))})"}
        elif order.not_on:
            options["label_selector"] = {"ray.io/node-id": f"!in({','.join(sorted(order.not_on))})"}
        try:
            answer = self._run.options(**options).remote(order, self._board, self._packed)
        except Exception as error:  # an order that Ray does not take is that run's error and nobody else's
            self._tell(Lost(order.uid, f"Ray refuses it: {_in_words(error)}"))
            return
        self._tasks[order.uid] = _Task(order, answer)
        self._when_done(answer, lambda future: self._done(order.uid, future))

    def _when_done(self, answer: Any, then: Callable[[Any], None]) -> None:
        answer.future().add_done_callback(lambda future: self._happenings.put(lambda: then(future)))

    def _later(self, seconds: float, then: Callable[[], None]) -> None:
        timer = threading.Timer(seconds, lambda: self._happenings.put(then))
        timer.daemon = True
        timer.start()

    def _done(self, uid: str, future: Any) -> None:
        task = self._tasks.pop(uid)
        self._arrivals.close(uid)
        error = future.exception()
        if error is not None:
            self._tell(Lost(uid, _in_words(error)))
            return
        result, where = future.result()
        if result is None:
            self._later(_TRIED_AGAIN_AFTER_S, lambda: self._start(task.order))
            return
        self._tell(Ended(uid, result, where))

    def _stop(self, uid: str) -> None:
        self._board.stop.remote(uid)
        self._end(uid, force=False)

    def _kill(self, uid: str) -> None:
        """End a run, unless it is sending its files: then it ended in time, however long the transfer takes."""
        if self._arrivals.has_news_of(uid, _SENDS_FILES_WITHIN_S):
            self._later(_SENDS_FILES_WITHIN_S, lambda: self._kill(uid))
        else:
            self._end(uid, force=True)

    def _end(self, uid: str, force: bool) -> None:
        if task := self._tasks.get(uid):
            self._ray.cancel(task.answer, force=force)

    def _ask_for_news(self) -> None:
        self._when_done(self._board.news.remote(), self._take_news)

    def _take_news(self, future: Any) -> None:
        if future.exception() is None:
            for uid, word in future.result().items():
                if "where" in word:
                    self._tell(Began(uid, word["where"]))
                if "status" in word:
                    self._tell(Progressed(uid, word["status"]))
        self._ask_for_news()

    def _ask_for_parcels(self, answers: Mapping[str, Problems]) -> None:
        self._when_done(self._board.parcels.remote(answers), self._take_parcels)

    def _take_parcels(self, future: Any) -> None:
        if future.exception() is not None:
            self._later(_TRIED_AGAIN_AFTER_S, lambda: self._ask_for_parcels({}))
            return
        self._ask_for_parcels({key: self._write(uid, parcel) for key, (uid, parcel) in future.result().items()})

    def _write(self, uid: str, parcel: list[Piece]) -> Problems:
        task = self._tasks.get(uid)
        if task is None:
            return {piece.name: "its run was ended" for piece in parcel}
        return self._arrivals.write(task.order.plan, parcel)

    def _look_at_nodes(self) -> None:
        nodes = tuple(sorted(map(_node, filter(_lives, self._ray.nodes())), key=lambda node: node.id))
        if nodes != self._reported_nodes:
            self._reported_nodes = nodes
            self._tell(Nodes(nodes))


def _lives(node: dict[str, Any]) -> bool:
    return bool(node["Alive"])


def _node(node: dict[str, Any]) -> Node:
    return Node(node["NodeID"], node["NodeManagerHostname"], node["NodeManagerAddress"], dict(node["Resources"]))


def _in_words(error: BaseException) -> str:
    """The first paragraph of Ray's message, which is long."""
    said = str(error).strip().split("\n\n")[0]
    return f"{type(error).__name__}: {said}"[:2000]


if __name__ == "__main__":
    main()
