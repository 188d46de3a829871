"""Needs of a run, its place, and the events of its life, in this process or in a fleet."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from curator_bench.values.runs import RunResult

_GIB = 1 << 30


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
        return ", ".join(amount_text(name, amount) for name, amount in self.amounts().items()) or "nothing"


def amount_text(name: str, amount: float) -> str:
    """Return an amount of a resource, with the resource's name in Ray, as people read it."""
    return f"{name}: {amount / _GIB:.4g} GiB" if name == "memory" else f"{name}: {amount:g}"


@dataclass(frozen=True, slots=True)
class Where:
    """The place of a run: node, GPUs, process."""

    node: str
    host: str
    gpus: tuple[str, ...] = ()
    machine_id: str = ""
    pid: int = 0
    circumstances: Mapping[str, Mapping[str, str]] = field(default_factory=dict, compare=False)
    """Facts of what the run is measured with there, by kind: machine, packages."""
    name: str = ""
    """Name for the user: the host, with the node's id if the host has several."""

    def __str__(self) -> str:
        return self.name or self.host


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
