"""Slices: the resources a plan requests, the nodes that can give them, and the size of the run's own cluster."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable
from dataclasses import replace

from curator_bench.fleet.messages import Node
from curator_bench.values import Plan, RaySettings, Slice

_CLOSE_ENOUGH = 0.999
"""A tolerance, since Ray rounds memory."""
_USUAL_CPUS = 1.0
_USUAL_OBJECT_STORE = 0.3
_SMALLEST_OBJECT_STORE = 80 << 20
"""Ray refuses less than 75 MiB."""


def slice_of(ray: RaySettings | None, runs_per_gpu: int = 1) -> Slice:
    """Return the slice for a `ray` block; by default one CPU and no GPU, as for any Ray task."""
    if ray is None or ray.address:
        return Slice()
    gpus = ray.num_gpus or 0.0
    return Slice(
        num_cpus=_USUAL_CPUS if ray.num_cpus is None else ray.num_cpus,
        num_gpus=gpus / runs_per_gpu if gpus == 1 else gpus,
        memory=ray.memory,
        resources=dict(ray.resources),
    )


def fits(wanted: Slice, node: Node) -> bool:
    """True if the slice fits on the node when the node is otherwise empty."""
    return all(node.resources.get(name, 0.0) >= amount * _CLOSE_ENOUGH for name, amount in wanted.amounts().items())


def capacity(wanted: Slice, nodes: Iterable[Node]) -> int:
    """Return how many such slices fit on all nodes together when they are otherwise empty."""
    return sum(_capacity_of(wanted, node) for node in nodes)


def _capacity_of(wanted: Slice, node: Node) -> int:
    shares = [node.resources.get(name, 0.0) / amount for name, amount in wanted.amounts().items()]
    return math.floor(min(shares, default=1.0) + 1 - _CLOSE_ENOUGH)


def largest(nodes: Collection[Node]) -> Node | None:
    """The node with most GPUs, then CPUs, then memory, for messages."""
    return max(
        nodes, key=lambda node: [node.resources.get(name, 0.0) for name in ("GPU", "CPU", "memory")], default=None
    )


def within(plan: Plan, wanted: Slice, node_cpus: float, node_memory: int, shm_bytes: int | None) -> Plan:
    """Give the run's own cluster the size of its slice, however many runs share the node.

    A fraction as object store size is of the memory the entry asks for, else of the node's memory in proportion to
    CPUs.
    """
    if plan.ray is None or plan.ray.address:
        return plan
    share = min(1.0, wanted.num_cpus / node_cpus) if node_cpus else 1.0
    memory = wanted.memory or int(node_memory * share)
    store = _object_store(plan.ray.object_store_size, memory, share, shm_bytes)
    return replace(
        plan,
        ray=replace(
            plan.ray,
            num_cpus=float(math.ceil(wanted.num_cpus)),
            num_gpus=float(math.ceil(wanted.num_gpus)),
            memory=wanted.memory or max(memory - store, _SMALLEST_OBJECT_STORE),
            object_store_size=store,
            reuse=False,
        ),
    )


def _object_store(said: int | float | None, memory: int, share: float, shm_bytes: int | None) -> int:
    if isinstance(said, int):
        return said
    size = int(memory * (_USUAL_OBJECT_STORE if said is None else said))
    if shm_bytes is not None:
        size = min(size, int(shm_bytes * share * 0.95))
    return max(size, _SMALLEST_OBJECT_STORE)
