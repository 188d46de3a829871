"""The tree of a matrix file: plain values in mappings and lists that remember their places."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from curator_bench.values import Place


class Block(dict[str, Any]):
    """A mapping that knows the place of each key."""

    __slots__ = ("anchored", "places", "repeated")

    def __init__(self) -> None:
        super().__init__()
        self.places: dict[str, Place] = {}
        self.repeated: list[tuple[str, Place]] = []
        """Keys written more than once. They are mistakes only if the block is used."""
        self.anchored: set[str] = set()
        """Keys whose value has a YAML anchor."""

    def put(self, key: str, value: Any, place: Place) -> None:
        self[key] = value
        self.places[key] = place

    def take(self, key: str) -> Any:
        self.places.pop(key, None)
        return self.pop(key)

    def copy(self) -> Block:
        new = Block()
        new.update(self)
        new.places.update(self.places)
        new.repeated = self.repeated
        new.anchored = self.anchored
        return new


class Items(list[Any]):
    """A list that knows the place of each item."""

    __slots__ = ("places",)

    def __init__(self) -> None:
        super().__init__()
        self.places: list[Place] = []

    def add(self, value: Any, place: Place) -> None:
        self.append(value)
        self.places.append(place)

    def copy(self) -> Items:
        new = Items()
        new.extend(self)
        new.places.extend(self.places)
        return new


class Filled(str):
    """A text with variables filled in.

    It may be meant as a number although it is quoted: YAML requires that in `{cpus: "${N}"}`.
    """

    __slots__ = ("secret",)
    secret: bool

    @classmethod
    def of(cls, text: str, *, secret: bool) -> Filled:
        new = cls(text)
        new.secret = secret
        return new

    def __repr__(self) -> str:
        return "'***'" if self.secret else super().__repr__()


class Undefined(str):
    """A text that names undefined variables, unchanged from the file."""

    __slots__ = ("variables",)
    variables: tuple[str, ...]

    @classmethod
    def of(cls, text: str, variables: tuple[str, ...]) -> Undefined:
        new = cls(text)
        new.variables = variables
        return new


Step = str | int

_CONTROL = re.compile(r"[\x00-\x1f\x7f\u0085\u2028\u2029]+")
_LONGEST_STEP = 60


def leaves(node: Any, here: Place, path: tuple[Step, ...] = ()) -> Iterator[tuple[tuple[Step, ...], Any, Place]]:
    """Yield every scalar of the tree with its path and its place."""
    if isinstance(node, Block):
        for key, value in node.items():
            yield from leaves(value, node.places.get(key, here), (*path, key))
    elif isinstance(node, Items):
        for index, value in enumerate(node):
            yield from leaves(value, node.places[index], (*path, index))
    else:
        yield path, node, here


def place_of(node: Any, path: tuple[Step, ...], here: Place) -> Place:
    """Place of the value at `path`, or of its nearest existing parent."""
    for step in path:
        if isinstance(node, Block) and isinstance(step, str) and step in node:
            here, node = node.places.get(step, here), node[step]
        elif isinstance(node, Items) and isinstance(step, int) and step < len(node):
            here, node = node.places[step], node[step]
        else:
            break
    return here


def show_path(root: Any, path: tuple[Step, ...]) -> str:
    """Text of a path, as `entries[removal].requirements[throughput].min_value`.

    List items are shown by name or metric.
    """
    text, node = "", root
    for step in path:
        node = _child(node, step)
        if isinstance(step, str):
            text += f".{_brief(step)}" if text else _brief(step)
        else:
            text += f"[{_item_name(node, step)}]"
    return text


def one_line(text: str) -> str:
    """Replace control characters, so that a message stays one line."""
    return _CONTROL.sub(" ", text)


def _brief(step: str) -> str:
    step = one_line(step)
    return step if len(step) <= _LONGEST_STEP else step[: _LONGEST_STEP - 3] + "..."


def _child(node: Any, step: Step) -> Any:
    if isinstance(node, dict) and isinstance(step, str):
        return node.get(step)
    if isinstance(node, list) and isinstance(step, int) and step < len(node):
        return node[step]
    return None


def _item_name(item: Any, index: int) -> Step:
    if isinstance(item, dict):
        for key in ("name", "metric", "type"):
            name = item.get(key)
            if isinstance(name, str) and name:
                return "***" if isinstance(name, Filled) and name.secret else _brief(name)
    return index
