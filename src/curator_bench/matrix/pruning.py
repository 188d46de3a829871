"""Prune a tree before validation: disabled blocks, `x-…` keys and keys set to null are removed."""

from __future__ import annotations

from typing import Any

from curator_bench.errors import Mistake
from curator_bench.matrix.scalars import describe, resolve_plain
from curator_bench.matrix.tree import Block, Filled, Items, Step, Undefined, show_path

_GONE = object()
# Below these keys all names are the user's: an environment variable may be called x-anything, or enabled.
_OWN_NAMES = frozenset(["env", "environment", "resources"])
# Below these keys all values are the user's too: null is a valid value of an axis.
_OWN_VALUES = frozenset(["matrix", "exclude", "include"])
# Settings inside these items belong to a sink.
_SETTINGS = frozenset(["sinks", "sink_data"])


class Pruner:
    """Pruner of one tree. It collects the mistakes of `enabled` and of keys that are written twice."""

    def __init__(self, root: Block) -> None:
        self._root = root
        self.mistakes: list[Mistake] = []

    def prune(self) -> Block:
        """Return the tree without its disabled parts. Unchanged parts are the same objects as before."""
        pruned = self._block(self._root, ())
        return Block() if pruned is _GONE else pruned

    def _node(self, node: Any, path: tuple[Step, ...]) -> Any:
        if isinstance(node, Block):
            return self._block(node, path)
        if isinstance(node, Items):
            return self._items(node, path)
        return node

    def _block(self, block: Block, path: tuple[Step, ...]) -> Any:
        names_are_own = not _OWN_NAMES.isdisjoint(path)
        if "enabled" in block and not names_are_own and _switch(block["enabled"]) is False:
            return _GONE
        values_are_own = not _OWN_VALUES.isdisjoint(path)
        keys_are_ours = not (names_are_own or values_are_own or _is_inside_settings(path))
        changed: Block | None = None
        for key, value in block.items():
            if (value is None and not values_are_own) or (
                keys_are_ours and self._is_to_remove(key, value, block, path)
            ):
                new = _GONE
            elif isinstance(value, Block | Items):
                new = self._node(value, (*path, key))
            else:
                continue
            if new is not value:
                changed = changed if changed is not None else block.copy()
                if new is _GONE:
                    changed.take(key)
                else:
                    changed[key] = new
        self._note_repeated(block, path)
        return block if changed is None else changed

    def _is_to_remove(self, key: str, value: Any, block: Block, path: tuple[Step, ...]) -> bool:
        """True for keys to remove: `x-…`, and `enabled` (any block may have it) unless it is undefined."""
        if key != "enabled":
            return key.startswith("x-")
        if isinstance(value, Undefined):
            return False
        if _switch(value) is not True:
            where = show_path(self._root, (*path, key))
            self.mistakes.append(Mistake(block.places[key], where, f"found {describe(value)}, expected true or false"))
        return True

    def _items(self, items: Items, path: tuple[Step, ...]) -> Items:
        pruned = [self._node(item, (*path, index)) for index, item in enumerate(items)]
        if all(new is old for new, old in zip(pruned, items, strict=True)):
            return items
        kept = Items()
        for new, place in zip(pruned, items.places, strict=True):
            if new is not _GONE:
                kept.add(new, place)
        return kept

    def _note_repeated(self, block: Block, path: tuple[Step, ...]) -> None:
        for key, place in block.repeated:
            where = show_path(self._root, (*path, key))
            self.mistakes.append(Mistake(place, where, "is written twice in the same mapping"))


def _switch(value: Any) -> Any:
    return resolve_plain(value) if isinstance(value, Filled) else value


def _is_inside_settings(path: tuple[Step, ...]) -> bool:
    """True if the path leads below an item of `sinks` or `sink_data`. The item's own keys are ours."""
    return any(step in _SETTINGS and len(path) > index + 2 for index, step in enumerate(path))
