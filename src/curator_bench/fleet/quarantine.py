"""Nodes and GPUs that are not used any more in this session, because two different entries had errors there."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from curator_bench.fleet.messages import Node
from curator_bench.values import Cause, Where

ENTRIES_WITH_ERRORS = 2


class Quarantine:
    """Counts errors by node and GPU. The last node is never quarantined, because the fault may be elsewhere."""

    def __init__(self) -> None:
        self._errors: dict[tuple[str, str], dict[str, None]] = {}
        """By node, and its GPU or an empty text, the entries that had an error there."""
        self._names: dict[str, str] = {}
        self._nodes: set[str] = set()
        self._gpus: dict[str, frozenset[str]] = {}

    @property
    def nodes(self) -> frozenset[str]:
        return frozenset(self._nodes)

    @property
    def gpus(self) -> Mapping[str, frozenset[str]]:
        return dict(self._gpus)

    def note(self, entry: str, where: Where, cause: Cause, nodes: Sequence[Node]) -> list[str]:
        """Count an error of an entry; the GPUs that are quarantined from now on."""
        self._names[where.node] = str(where)
        if cause is Cause.GPU:
            return [gpu for gpu in where.gpus if self._is_new_gpu(entry, where.node, gpu)]
        if self._count(entry, where.node) and any(node.id not in {*self._nodes, where.node} for node in nodes):
            self._nodes.add(where.node)
        return []

    def lines(self) -> Iterator[str]:
        """Lines for the user."""
        for node in sorted(self._nodes):
            entries = ", ".join(self._errors[node, ""])
            yield f"not used any more: node {self._names[node]}, after errors of {entries}"
        for node, gpus in sorted(self._gpus.items()):
            for gpu in sorted(gpus):
                entries = ", ".join(self._errors[node, gpu])
                yield f"not used any more: GPU {gpu} of {self._names[node]}, after errors of {entries}"

    def _is_new_gpu(self, entry: str, node: str, gpu: str) -> bool:
        known = self._gpus.get(node, frozenset())
        if not self._count(entry, node, gpu) or gpu in known:
            return False
        self._gpus[node] = known | {gpu}
        return True

    def _count(self, entry: str, node: str, gpu: str = "") -> bool:
        """Count an error; true if enough different entries had one."""
        entries = self._errors.setdefault((node, gpu), {})
        entries[entry] = None
        return len(entries) >= ENTRIES_WITH_ERRORS
