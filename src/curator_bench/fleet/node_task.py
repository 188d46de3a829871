"""The Ray task of an order: `run_entry`, as everywhere, with the resources of the order's slice."""

from __future__ import annotations

import dataclasses
import functools
import importlib
import os
import secrets
import signal
import socket
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from curator_bench.errors import GpuError
from curator_bench.execution.failed import failed_before_it_began
from curator_bench.execution.run import Interrupted, run_entry
from curator_bench.execution.untrusted_files import Unusable, read_json_object
from curator_bench.execution.workbench import Workbench
from curator_bench.fleet.code_shipping import Shipment, Unpacked, relocated, unpacked
from curator_bench.fleet.file_transfer import Piece, Problems, send_home, warning_of
from curator_bench.fleet.gpus import GpuWatch
from curator_bench.fleet.messages import Order
from curator_bench.fleet.slices import within
from curator_bench.provenance.environment import Provenance, machine_id
from curator_bench.values import Cause, Plan, RunResult, Where

_EVERY_S = 1.0
_ANSWERS_WITHIN_S = 10.0
_ENDED_WITHIN_S = 2.0
_LARGEST_STATUS = 1 << 20
_DELIVERED_AGAIN_AFTER_S = (1.0, 5.0, 20.0)
_RAYS_ALLOCATOR = "ray/core/libjemalloc.so"


def run_on_node(order: Order, board: Any, shipment: Shipment | None) -> tuple[RunResult | None, Where]:
    """Run an order. There is no result if Ray gave the task a quarantined GPU: it has to be queued again."""
    # Ray starts its processes deaf to Ctrl-C, and a script would be, too.
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
    with _interrupted_once():
        return _run_order(order, board, shipment)


@contextmanager
def _interrupted_once() -> Iterator[None]:
    """Ignore all interrupts but the first: both Ray and the messenger interrupt a run that is to stop.

    The second one would take the script the time to answer SIGTERM.
    """
    is_interrupted = False

    def interrupt(*_: object) -> None:
        nonlocal is_interrupted
        if not is_interrupted:
            is_interrupted = True
            raise KeyboardInterrupt

    before = signal.signal(signal.SIGINT, interrupt)
    try:
        yield
    finally:
        if before is not None:
            signal.signal(signal.SIGINT, before)


def _run_order(order: Order, board: Any, shipment: Shipment | None) -> tuple[RunResult | None, Where]:
    where = _where()
    if not _may_run(order, where, board):
        return None, where
    bench = _workbench()
    with unpacked(order.plan, shipment or Shipment(), where.node, bench.marker) as here:
        bench.environ = _inherited(where)
        where = dataclasses.replace(where, circumstances=_provenance().circumstances(here.plan.python))
        plan = within(here.plan, order.slice, *_size_of_node(), _shared_memory())
        with Messenger(plan, where, board):
            result = _run(plan, order, where, bench)
        if result.cause is Cause.GPU:
            _answer(board.refused.remote(where.node, where.gpus, plan.name))
        if here.is_away:
            result = _with_files_sent_home(plan, here, result, board)
        return here.back(result), where


def _with_files_sent_home(plan: Plan, here: Unpacked, result: RunResult, board: Any) -> RunResult:
    def deliver(parcel: list[Piece]) -> Problems:
        return _delivered(plan.uid, parcel, board)

    def to_home(text: str) -> str:
        return relocated(text, here.to_home())

    problems = send_home(plan, deliver, to_home)
    if not problems:
        return result
    return dataclasses.replace(result, warnings=(*result.warnings, warning_of(problems, result.host)))


def _delivered(uid: str, parcel: list[Piece], board: Any) -> Problems:
    """Deliver a parcel, however long the driver takes. A board that died is called again: Ray restarts it."""
    ray: Any = importlib.import_module("ray")
    for wait_s in (*_DELIVERED_AGAIN_AFTER_S, 0.0):
        try:
            answer: Problems = ray.get(board.deliver.remote(uid, parcel))
            return answer
        except ray.exceptions.RayActorError as error:
            problem = str(error).strip().partition("\n")[0]
            time.sleep(wait_s)
    return {piece.name: problem for piece in parcel}


def _may_run(order: Order, where: Where, board: Any) -> bool:
    """False on a quarantined GPU, also of those quarantined while the order waited. No answer counts as true."""
    quarantine = order.quarantined_gpus.get(where.node, frozenset())
    if where.gpus:
        quarantine |= _answer(board.quarantined_gpus.remote(where.node)) or frozenset()
    return not quarantine & set(where.gpus)


def _answer(answer: Any) -> Any:
    ray: Any = importlib.import_module("ray")
    with suppress(ray.exceptions.RayError):
        return ray.get(answer, timeout=_ANSWERS_WITHIN_S)
    return None


def _run(plan: Plan, order: Order, where: Where, bench: Workbench) -> RunResult:
    watch = GpuWatch(bench.environ, order.shares_gpu, plan.gpu_mem_use_warning_threshold) if where.gpus else None
    try:
        if watch is not None:
            watch.check()
        with bench.guard.at_work():
            result = run_entry(plan, bench)
    except GpuError as error:
        result = failed_before_it_began(plan, str(error), Cause.GPU)
    except Interrupted as stop:
        result = stop.result
    return watch.with_gpus(result) if watch is not None else result


class Messenger:
    """Report to the board where the run is, and its progress once a second; interrupt it if the board says so."""

    def __init__(self, plan: Plan, where: Where, board: Any) -> None:
        self._ray: Any = importlib.import_module("ray")
        self._uid, self._board = plan.uid, board
        self._status = Path(plan.entry_dir, "status.json")
        self._ended = threading.Event()
        self._first_word = board.note.remote(plan.uid, {"where": where})
        self._thread = threading.Thread(target=self._run, name="curator-bench messenger", daemon=True)

    def __enter__(self) -> None:
        self._thread.start()

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join(_ENDED_WITHIN_S)

    def _run(self) -> None:
        answer = self._first_word
        while not self._is_unwanted(answer):
            if self._ended.wait(_EVERY_S):
                return
            answer = self._board.note.remote(self._uid, self._word())
        if not self._ended.is_set():
            os.kill(os.getpid(), signal.SIGINT)  # as Ctrl-C: the main thread puts the run in order

    def _is_unwanted(self, answer: Any) -> bool:
        """True if the board says that the run is to stop; no answer counts as false."""
        try:
            return bool(self._ray.get(answer, timeout=_ANSWERS_WITHIN_S))
        except self._ray.exceptions.RayError:
            return False

    def _word(self) -> dict[str, Any]:
        try:
            return {"status": read_json_object(self._status, most_bytes=_LARGEST_STATUS).fields}
        except Unusable:
            return {}


@functools.cache
def _workbench() -> Workbench:
    """The workbench of all runs of this worker; its guard ends them when the worker dies.

    Its folder has a name that nobody can guess, and stays empty.
    """
    return Workbench(Path(tempfile.gettempdir(), secrets.token_hex(16)), in_ray_worker=True)


def _where() -> Where:
    ray: Any = importlib.import_module("ray")
    return Where(
        node=ray.get_runtime_context().get_node_id(),
        host=socket.gethostname(),
        gpus=tuple(map(str, ray.get_gpu_ids())),
        machine_id=_machine(),
        pid=os.getpid(),
    )


@functools.cache
def _provenance() -> Provenance:
    return Provenance(Path())


@functools.cache
def _machine() -> str:
    return machine_id()


@functools.cache
def _size_of_node() -> tuple[float, int]:
    """The CPUs and the memory that Ray counts on this node."""
    ray: Any = importlib.import_module("ray")
    own = ray.get_runtime_context().get_node_id()
    resources = next(node["Resources"] for node in ray.nodes() if node["NodeID"] == own)
    return resources.get("CPU", 0.0), int(resources.get("memory", 0) + resources.get("object_store_memory", 0))


def _shared_memory() -> int | None:
    try:
        system = os.statvfs("/dev/shm")
    except OSError:
        return None
    return system.f_blocks * system.f_frsize


def _inherited(where: Where) -> Mapping[str, str]:
    """The environment the node was started with, as a script sees it without a fleet, with the slice's GPUs."""
    env = dict(_environment_of_the_node())
    if where.gpus or _has_gpus():
        env["CUDA_VISIBLE_DEVICES"] = ",".join(where.gpus)
    return env


@functools.cache
def _environment_of_the_node() -> Mapping[str, str]:
    """The environment of the raylet, as Ray adds to a worker's. If it cannot be read, the worker's is used, from which
    `without_ray` removes what Ray is known to add."""
    try:
        pairs = Path("/proc", os.environ["RAY_RAYLET_PID"], "environ").read_bytes().split(b"\0")
    except (OSError, KeyError):
        return os.environ
    env = dict(os.fsdecode(pair).split("=", 1) for pair in pairs if b"=" in pair)
    preloaded = [library for library in env.pop("LD_PRELOAD", "").split(":") if library]
    if own := [library for library in preloaded if not library.endswith(_RAYS_ALLOCATOR)]:
        env["LD_PRELOAD"] = ":".join(own)
    return env


@functools.cache
def _has_gpus() -> bool:
    ray: Any = importlib.import_module("ray")
    own = ray.get_runtime_context().get_node_id()
    return any(node["NodeID"] == own and node["Resources"].get("GPU") for node in ray.nodes())
