"""Reserve quarantined GPUs: an actor holds each of them until the fleet ends, so that no run gets it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

_FREE_WITHIN_S = 3.0
_TRIED_AGAIN_AFTER_S = 10.0


class Holder:
    """An actor that holds one GPU and does nothing."""

    def gpu(self) -> str:
        import ray

        return ",".join(map(str, ray.get_gpu_ids()))


@dataclass(slots=True)
class _Search:
    """The search for the GPUs of one node that are to be reserved."""

    wanted: set[str] = field(default_factory=set)
    waiting: Any = None
    others: list[Any] = field(default_factory=list)


class GpuReservations:
    """Ray gives no choice of GPU, so actors take the free ones of a node until the wanted one is among them.

    If that is not free, the others are given back, and the search continues later.
    """

    def __init__(
        self,
        ray: Any,
        when_done: Callable[[Any, Callable[[Any], None]], None],
        later: Callable[[float, Callable[[], None]], None],
    ) -> None:
        self._holder: Any = ray.remote(Holder)
        self._ray, self._when_done, self._later = ray, when_done, later
        self._searches: dict[str, _Search] = {}
        self._kept: list[Any] = []

    def reserve(self, node: str, gpu: str) -> None:
        search = self._searches.setdefault(node, _Search())
        search.wanted.add(gpu)
        if search.waiting is None:
            self._take_one(node, search)

    def _take_one(self, node: str, search: _Search) -> None:
        options = {"num_cpus": 0, "num_gpus": 1, "label_selector": {"ray.io/node-id": node}}
        actor = search.waiting = self._holder.options(**options).remote()
        self._when_done(actor.gpu.remote(), lambda answer: self._taken(node, search, actor, answer))
        self._later(_FREE_WITHIN_S, lambda: self._give_up_for_now(node, search, actor))

    def _taken(self, node: str, search: _Search, actor: Any, answer: Any) -> None:
        if search.waiting is not actor:
            return
        search.waiting = None
        if answer.exception() is not None:  # the node is gone, and its GPUs with it
            return
        is_wanted = answer.result() in search.wanted
        search.wanted.discard(answer.result())
        (self._kept if is_wanted else search.others).append(actor)
        if search.wanted:
            self._take_one(node, search)
        else:
            self._give_back(search)

    def _give_up_for_now(self, node: str, search: _Search, actor: Any) -> None:
        if search.waiting is not actor:
            return
        search.waiting = None
        self._ray.kill(actor)
        self._give_back(search)
        self._later(_TRIED_AGAIN_AFTER_S, lambda: self._go_on(node, search))

    def _go_on(self, node: str, search: _Search) -> None:
        if search.waiting is None and search.wanted:
            self._take_one(node, search)

    def _give_back(self, search: _Search) -> None:
        while search.others:
            self._ray.kill(search.others.pop())
