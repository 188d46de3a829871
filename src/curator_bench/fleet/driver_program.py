"""The driver of a fleet: the one process of a session that speaks to the fleet's cluster (see fleet.py).

Argument: the descriptor of its end of the connection to the pytest process. What it is told first is a Request, then
wishes; it sends events. The address and what opens it stand in its environment. It ends with the connection.
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

from curator_bench.fleet.baggage import Baggage, Sending, choose, runtime_env, what_to_send
from curator_bench.fleet.board import Board
from curator_bench.fleet.file_transfer import Arrivals, Piece, Problems
from curator_bench.fleet.model import (
    Ended,
    Event,
    Kill,
    Leave,
    Lost,
    Node,
    Nodes,
    Noted,
    Order,
    Refused,
    Request,
    Reserve,
    Started,
    Stop,
    Told,
    Wish,
    name_of_node,
)
from curator_bench.fleet.node import run_on_node
from curator_bench.fleet.reserving import Reserving

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
    connection: Connection[Event, Wish | Request] = Connection(int(sys.argv[1]))
    request = connection.recv()
    assert isinstance(request, Request)
    try:
        driver = Driver(connection.send, request)
    except Exception as error:  # whatever Ray raises is the answer
        connection.send(Refused(f"{type(error).__name__}: {error}"))
        os._exit(1)
    threading.Thread(target=driver.listen, args=(connection.recv,), daemon=True).start()
    driver.serve()
    driver.leave()
    os._exit(0)


class Driver:
    """Everything that happens comes through one queue, so there is no waiting and no locking."""

    def __init__(self, tell: Callable[[Event], None], request: Request) -> None:
        self._ray: Any = importlib.import_module("ray")
        self._tell = tell
        self._happenings: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._is_client = os.environ.get("RAY_ADDRESS", "").startswith(_RAY_CLIENT)
        self._tasks: dict[str, _Task] = {}
        self._told_nodes: tuple[Node, ...] = ()
        self._baggage, self._unasked = request.baggage, _TO_COME if request.more_nodes_may_come else ""
        if self._is_client:
            self._connect_as_client()
        else:
            self._connect()
            sending = self._choose_what_to_send()
            if sending.code or sending.files:  # Ray takes folders only when a driver connects
                self._ray.shutdown()
                with runtime_env(self._baggage or Baggage(), sending) as env:
                    self._connect(runtime_env=env)
        self._packed = self._ray.put(self._baggage)
        self._run: Any = self._ray.remote(run_on_node)
        self._board: Any = self._ray.remote(Board).options(**self._beside_us()).remote()
        self._ray.get(self._board.stop.remote(""))  # it is there before the first run has something to tell
        self._reserving = Reserving(self._ray, self._when_done, self._later)
        self._look_at_nodes()
        self._arrivals = Arrivals()
        self._ask_for_news()
        self._ask_for_parcels({})

    def _beside_us(self) -> dict[str, Any]:
        """The board outlives other nodes, though not ours (as a client's, the head is); its own death costs a few
        words only.
        """
        options: dict[str, Any] = {"num_cpus": 0, "max_restarts": -1, "max_task_retries": -1, "max_concurrency": 10_000}
        if self._is_client:
            return {**options, "resources": _ON_THE_HEAD}
        return {**options, "label_selector": {"ray.io/node-id": self._ray.get_runtime_context().get_node_id()}}

    def _choose_what_to_send(self) -> Sending:
        """Nothing where all machines have all they need."""
        if self._baggage is None:
            return Sending()
        hosts = {node["NodeID"]: node["NodeManagerHostname"] for node in filter(_lives, self._ray.nodes())}
        names = {
            node: name_of_node(host, node, [other for other in hosts if hosts[other] == host])
            for node, host in hosts.items()
        }
        self._baggage, sending = choose(self._ray, self._baggage, names, self._unasked)
        self._note(sending.words)
        return sending

    def _connect_as_client(self) -> None:
        """Sends all there is: to ask first takes a second connection, in which Ray's server now and then breaks."""
        baggage = self._baggage or Baggage()
        sending = what_to_send(baggage, {}, _OF_A_CLIENT)
        with runtime_env(baggage, sending) as env:
            for attempt in range(1, _CLIENT_ATTEMPTS + 1):
                try:
                    self._connect(runtime_env=env)
                    break
                except ConnectionAbortedError:
                    if attempt == _CLIENT_ATTEMPTS:
                        raise
        self._baggage = baggage.as_sent(sending.files)
        self._note(sending.words)

    def _note(self, words: Iterable[str]) -> None:
        for text in words:
            self._tell(Noted(text))

    def _connect(self, **options: Any) -> None:
        self._ray.init(namespace=_NAMESPACE, log_to_driver=False, logging_level="ERROR", **options)

    def listen(self, hear: Callable[[], Wish | Request]) -> None:
        """In a thread of its own, until the session is over or the connection breaks."""
        while True:
            try:
                wish = hear()
            except (EOFError, OSError):
                wish = Leave()
            if isinstance(wish, Leave):
                self._happenings.put(None)
                return
            self._happenings.put(partial(self._grant, wish))

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
        """Saying good-bye takes long, and the cluster sees us go; but a client that says nothing is waited for, and
        what is its own on the cluster is kept for so long.
        """
        if self._is_client:
            self._ray.shutdown()

    def _grant(self, wish: Wish | Request) -> None:
        match wish:
            case Order():
                self._start(wish)
            case Stop(uid):
                self._stop(uid)
            case Kill(uid):
                self._kill(uid)
            case Reserve(node, gpu):
                self._reserving.reserve(node, gpu)

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
            self._tell(Lost(order.uid, f"Ray does not take it: {_in_words(error)}"))
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
        """A run that is sending its files has come to its end in time, however long they take."""
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
                    self._tell(Started(uid, word["where"]))
                if "status" in word:
                    self._tell(Told(uid, word["status"]))
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
            return {piece.name: "its run has been given up" for piece in parcel}
        return self._arrivals.write(task.order.plan, parcel)

    def _look_at_nodes(self) -> None:
        nodes = tuple(sorted(map(_node, filter(_lives, self._ray.nodes())), key=lambda node: node.id))
        if nodes != self._told_nodes:
            self._told_nodes = nodes
            self._tell(Nodes(nodes))


def _lives(node: dict[str, Any]) -> bool:
    return bool(node["Alive"])


def _node(node: dict[str, Any]) -> Node:
    return Node(node["NodeID"], node["NodeManagerHostname"], node["NodeManagerAddress"], dict(node["Resources"]))


def _in_words(error: BaseException) -> str:
    """Ray's messages are long; the first paragraph says what happened."""
    said = str(error).strip().split("\n\n")[0]
    return f"{type(error).__name__}: {said}"[:2000]


if __name__ == "__main__":
    main()
