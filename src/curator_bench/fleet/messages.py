"""The messages between the pytest process and the driver: commands go there, events come back."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

from curator_bench.fleet.code_shipping import Shipment
from curator_bench.values import Plan, RunResult

_GIB = 1 << 30
_SHOWN_OF_AN_ID = 8


@dataclass(frozen=True, slots=True)
class Slice:
    """The resources of a node that one run gets, as its Ray task requests them."""

    num_cpus: float = 1.0
    num_gpus: float = 0.0
    memory: int | None = None
    resources: Mapping[str, float] = field(default_factory=dict)

    def amounts(self) -> dict[str, float]:
        """By Ray's names for resources, all amounts that are not zero."""
        asked = {"CPU": self.num_cpus, "GPU": self.num_gpus, "memory": float(self.memory or 0), **self.resources}
        return {name: amount for name, amount in asked.items() if amount}

    def __str__(self) -> str:
        return ", ".join(_shown(name, amount) for name, amount in self.amounts().items()) or "nothing"


@dataclass(frozen=True, slots=True)
class Node:
    """A node of the fleet: a machine, or one `ray start` of several on it."""

    id: str
    host: str
    address: str
    resources: Mapping[str, float] = field(default_factory=dict)
    name: str = ""
    """Name for the user if the host has several nodes."""

    def __str__(self) -> str:
        told = ", ".join(_shown(name, amount) for name, amount in self.resources.items() if _is_shown(name))
        return f"{self.name or self.host} ({told})"


def name_of_node(host: str, node: str, others: Collection[str]) -> str:
    """The name for the user. `others`: the ids of all nodes of that host."""
    beside = {*others} - {node}
    if not beside:
        return host
    start = node[:_SHOWN_OF_AN_ID]
    return f"{host}/{node if any(other.startswith(start) for other in beside) else start}"


class NodeNames:
    """The names of a fleet's nodes for the user, told apart also from those that have died."""

    def __init__(self) -> None:
        self._of_host: dict[str, set[str]] = {}

    def named(self, nodes: Iterable[Node]) -> tuple[Node, ...]:
        nodes = tuple(nodes)
        for node in nodes:
            self._of_host.setdefault(node.host, set()).add(node.id)
        return tuple(replace(node, name=self.name_of(Where(node.id, node.host))) for node in nodes)

    def name_of(self, where: Where) -> str:
        return name_of_node(where.host, where.node, self._of_host.get(where.host, ()))


def _shown(name: str, amount: float) -> str:
    return f"{name}: {amount / _GIB:.4g} GiB" if name == "memory" else f"{name}: {amount:g}"


def _is_shown(name: str) -> bool:
    return not name.startswith("node:") and name != "object_store_memory"


@dataclass(frozen=True, slots=True)
class Order:
    """The command to run one attempt at an entry somewhere in the fleet."""

    plan: Plan
    slice: Slice
    not_on: frozenset[str] = frozenset()
    """Ids of nodes it must not run on."""
    only_on: frozenset[str] = frozenset()
    """If not empty, ids of the only nodes it may run on."""
    shares_gpu: bool = False
    """True if other runs may use its GPU at the same time."""
    quarantined_gpus: Mapping[str, frozenset[str]] = field(default_factory=dict)
    """By node id, the GPUs that are not used any more."""

    @property
    def uid(self) -> str:
        return self.plan.uid


@dataclass(frozen=True, slots=True)
class Where:
    """The place of a run: node, GPUs, process."""

    node: str
    host: str
    gpus: tuple[str, ...] = ()
    machine_id: str = ""
    pid: int = 0
    name: str = ""
    """Name for the user: the host, with the node's id if the host has several."""

    def __str__(self) -> str:
        return self.name or self.host


@dataclass(frozen=True, slots=True)
class Request:
    """The first message to a driver."""

    shipment: Shipment | None = None
    """None if all nodes are this machine."""
    more_nodes_may_come: bool = False
    """True for a cluster that scales itself: later nodes cannot be asked what they lack."""


@dataclass(frozen=True, slots=True)
class Stop:
    """Stop a run: withdraw it from the queue, or interrupt it as Ctrl-C does."""

    uid: str


@dataclass(frozen=True, slots=True)
class Kill:
    """End the worker of a run that does not answer; its guard ends the rest."""

    uid: str


@dataclass(frozen=True, slots=True)
class Reserve:
    """Keep a GPU from being used again, by an actor that holds it."""

    node: str
    gpu: str


@dataclass(frozen=True, slots=True)
class Leave:
    """The invocation is over; the driver ends."""


Command: TypeAlias = Order | Stop | Kill | Reserve | Leave


@dataclass(frozen=True, slots=True)
class Nodes:
    """The living nodes; sent at the start and after every change."""

    nodes: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Notice:
    """A line for the user."""

    text: str


@dataclass(frozen=True, slots=True)
class NotConnected:
    """The driver could not connect. No event follows."""

    reason: str


@dataclass(frozen=True, slots=True)
class Began:
    """A run has begun. `where` is its place in a fleet; None stands for this process."""

    uid: str
    where: Where | None = None


@dataclass(frozen=True, slots=True)
class Progressed:
    """News of a run. `status` is the content of its status.json."""

    uid: str
    status: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Ended:
    """A run has ended, and its files are in its folder at home."""

    uid: str
    result: RunResult
    where: Where | None = None


@dataclass(frozen=True, slots=True)
class Lost:
    """A run ended without a result: its worker, node or driver died, or it was withdrawn."""

    uid: str
    reason: str
    with_all: bool = False
    """True if the driver or the whole cluster ended. A run that was in the queue can still run elsewhere."""


@dataclass(frozen=True, slots=True)
class Broken:
    """The driver or the whole cluster ended, after a `Lost` for each of its runs."""

    reason: str


Event: TypeAlias = Nodes | Notice | NotConnected | Began | Progressed | Ended | Lost | Broken
