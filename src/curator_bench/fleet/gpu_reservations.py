"""Holds GPUs that nothing must run on any more, each by an actor, until the fleet ends."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

_FREE_WITHIN_S = 3.0
_TRIED_AGAIN_AFTER_S = 10.0


class Holder:
    """Does nothing, on a GPU."""

    def gpu(self) -> str:
        import ray

        return ",".join(map(str, ray.get_gpu_ids()))


@dataclass(slots=True)
class _Hunt:
    """For the GPUs of one node that are wanted and not held yet."""

    wanted: set[str] = field(default_factory=set)
    waiting: Any = None
    others: list[Any] = field(default_factory=list)


class Reserving:
    """Ray does not let choose a GPU: on a node, actors take those that are free until the right one is among them.

    When it is not free, those held meanwhile are given back, and the hunt goes on later.
    """

    def __init__(
        self,
        ray: Any,
        when_done: Callable[[Any, Callable[[Any], None]], None],
        later: Callable[[float, Callable[[], None]], None],
    ) -> None:
        self._holder: Any = ray.remote(Holder)
        self._ray, self._when_done, self._later = ray, when_done, later
        self._hunts: dict[str, _Hunt] = {}
        self._kept: list[Any] = []

    def reserve(self, node: str, gpu: str) -> None:
        hunt = self._hunts.setdefault(node, _Hunt())
        hunt.wanted.add(gpu)
        if hunt.waiting is None:
            self._take_one(node, hunt)

    def _take_one(self, node: str, hunt: _Hunt) -> None:
        options = {"num_cpus": 0, "num_gpus": 1, "label_selector": {"ray.io/node-id": node}}
        actor = hunt.waiting = self._holder.options(**options).remote()
        self._when_done(actor.gpu.remote(), lambda answer: self._taken(node, hunt, actor, answer))
        self._later(_FREE_WITHIN_S, lambda: self._give_up_for_now(node, hunt, actor))

    def _taken(self, node: str, hunt: _Hunt, actor: Any, answer: Any) -> None:
        if hunt.waiting is not actor:
            return
        hunt.waiting = None
        if answer.exception() is not None:  # the node is gone, and its GPUs with it
            return
        is_wanted = answer.result() in hunt.wanted
        hunt.wanted.discard(answer.result())
        (self._kept if is_wanted else hunt.others).append(actor)
        if hunt.wanted:
            self._take_one(node, hunt)
        else:
            self._give_back(hunt)

    def _give_up_for_now(self, node: str, hunt: _Hunt, actor: Any) -> None:
        if hunt.waiting is not actor:
            return
        hunt.waiting = None
        self._ray.kill(actor)
        self._give_back(hunt)
        self._later(_TRIED_AGAIN_AFTER_S, lambda: self._go_on(node, hunt))

    def _go_on(self, node: str, hunt: _Hunt) -> None:
        if hunt.waiting is None and hunt.wanted:
            self._take_one(node, hunt)

    def _give_back(self, hunt: _Hunt) -> None:
        while hunt.others:
            self._ray.kill(hunt.others.pop())
