"""The values a fleet is spoken to in: orders and wishes go to its driver, events come back."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from curator_bench.fleet.baggage import Baggage
from curator_bench.values import Plan, RunResult

_GIB = 1 << 30
_SHOWN_OF_AN_ID = 8


@dataclass(frozen=True, slots=True)
class Slice:
    """What one run has of a node, as its Ray task asks for it."""

    num_cpus: float = 1.0
    num_gpus: float = 0.0
    memory: int | None = None
    resources: Mapping[str, float] = field(default_factory=dict)

    def amounts(self) -> dict[str, float]:
        """By the names Ray has for them; what is zero is left out."""
        asked = {"CPU": self.num_cpus, "GPU": self.num_gpus, "memory": float(self.memory or 0), **self.resources}
        return {name: amount for name, amount in asked.items() if amount}

    def __str__(self) -> str:
        return ", ".join(_told(name, amount) for name, amount in self.amounts().items()) or "nothing"


@dataclass(frozen=True, slots=True)
class Node:
    """One machine of the fleet (or one `ray start`, of which a machine may have several)."""

    id: str
    host: str
    address: str
    resources: Mapping[str, float] = field(default_factory=dict)
    name: str = ""
    """For people, where its host has several."""

    def __str__(self) -> str:
        told = ", ".join(_told(name, amount) for name, amount in self.resources.items() if _is_for_people(name))
        return f"{self.name or self.host} ({told})"


def name_of_node(host: str, node: str, others: Collection[str]) -> str:
    """For people. `others`: all nodes of that host, by id."""
    beside = {*others} - {node}
    if not beside:
        return host
    start = node[:_SHOWN_OF_AN_ID]
    return f"{host}/{node if any(other.startswith(start) for other in beside) else start}"


def _told(name: str, amount: float) -> str:
    return f"{name}: {amount / _GIB:.4g} GiB" if name == "memory" else f"{name}: {amount:g}"


def _is_for_people(name: str) -> bool:
    return not name.startswith("node:") and name != "object_store_memory"


@dataclass(frozen=True, slots=True)
class Order:
    """One attempt at an entry that is to run somewhere in the fleet."""

    plan: Plan
    slice: Slice
    not_on: frozenset[str] = frozenset()
    """Nodes it must not run on, by id."""
    only_on: frozenset[str] = frozenset()
    """Where there are any, the nodes it must run on, by id."""
    shares_gpu: bool = False
    """Whether other runs may use its GPU at the same time."""
    gpus_left_out: Mapping[str, frozenset[str]] = field(default_factory=dict)
    """By node id, the GPUs nothing must run on any more."""

    @property
    def uid(self) -> str:
        return self.plan.uid


@dataclass(frozen=True, slots=True)
class Where:
    """Where a run is, and how much of that machine it has."""

    node: str
    host: str
    gpus: tuple[str, ...] = ()
    machine_id: str = ""
    pid: int = 0
    name: str = ""
    """For people: the host, and where that has several nodes which of them."""

    def __str__(self) -> str:
        return self.name or self.host


@dataclass(frozen=True, slots=True)
class Request:
    """The first thing a driver is told."""

    baggage: Baggage | None = None
    """None where all nodes are this machine."""
    more_nodes_may_come: bool = False
    """As in a cluster that scales itself: what they have cannot be asked in time."""


@dataclass(frozen=True, slots=True)
class Stop:
    """A run is not wanted any more: what waits is withdrawn, what runs is told as by Ctrl-C."""

    uid: str


@dataclass(frozen=True, slots=True)
class Kill:
    """A run that does not answer: its worker is ended, and its guard ends the rest."""

    uid: str


@dataclass(frozen=True, slots=True)
class Reserve:
    """A GPU that nothing must run on any more is held by an actor."""

    node: str
    gpu: str


@dataclass(frozen=True, slots=True)
class Leave:
    """The session is over."""


Wish: TypeAlias = Order | Stop | Kill | Reserve | Leave


@dataclass(frozen=True, slots=True)
class Nodes:
    """The nodes that live; told once at the start, and whenever they change."""

    nodes: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Noted:
    """Something to tell people."""

    text: str


@dataclass(frozen=True, slots=True)
class Refused:
    """There is no fleet to be had, and why. Nothing follows."""

    reason: str


@dataclass(frozen=True, slots=True)
class Started:
    """A run has left the queue."""

    uid: str
    where: Where


@dataclass(frozen=True, slots=True)
class Told:
    """What a run does at this moment: the content of its status.json."""

    uid: str
    status: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Ended:
    """A run answered; its files are in its folder at home."""

    uid: str
    result: RunResult
    where: Where


@dataclass(frozen=True, slots=True)
class Lost:
    """A run will not answer: its worker, its node or the driver died under it, or it was withdrawn."""

    uid: str
    reason: str
    with_all: bool = False
    """The driver or the cluster has ended; one that waited in the queue was not to blame, and can run yet."""


@dataclass(frozen=True, slots=True)
class Broken:
    """The driver or the whole cluster has ended; every run under way was told as `Lost` before."""

    reason: str


Event: TypeAlias = Nodes | Noted | Refused | Started | Told | Ended | Lost | Broken
