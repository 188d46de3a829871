"""The messages between the pytest process and the driver: commands go there, events come back."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from curator_bench.fleet.code_shipping import Shipment
from curator_bench.values import Began, Ended, Plan, Progressed, Slice, Where, amount_text

_SHOWN_OF_AN_ID = 8


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
        amounts = ", ".join(amount_text(name, amount) for name, amount in self.resources.items() if _is_shown(name))
        return f"{self.name or self.host} ({amounts})"


def name_of_node(host: str, node: str, others: Collection[str]) -> str:
    """The name for the user. `others`: the ids of all nodes of that host."""
    beside = {*others} - {node}
    if not beside:
        return host
    start = node[:_SHOWN_OF_AN_ID]
    return f"{host}/{node if any(other.startswith(start) for other in beside) else start}"


class NodeNames:
    """The names of a fleet's nodes for the user; different also from those of nodes that have died."""

    def __init__(self) -> None:
        self._of_host: dict[str, set[str]] = {}

    def named(self, nodes: Iterable[Node]) -> tuple[Node, ...]:
        nodes = tuple(nodes)
        for node in nodes:
            self._of_host.setdefault(node.host, set()).add(node.id)
        return tuple(replace(node, name=self.name_of(Where(node.id, node.host))) for node in nodes)

    def name_of(self, where: Where) -> str:
        return name_of_node(where.host, where.node, self._of_host.get(where.host, ()))


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
