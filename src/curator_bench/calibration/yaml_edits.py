"""Numbers in the text of a matrix: where they stand, and the text with others. All else stays as it is written.

The places come from PyYAML, which tells them to the character. A library that writes YAML anew would change what people
have aligned.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeAlias, TypeGuard, cast

import yaml

from curator_bench.errors import BenchError
from curator_bench.files import safe_files
from curator_bench.matrix.scalars import resolve_plain
from curator_bench.values import BOUNDS

TIMEOUT = "timeout_s"
_WRITTEN_BOUNDS = tuple(bound for bound in BOUNDS if bound != "exact_value")
_PLAIN = re.compile(r"[A-Za-z_][\w./-]*")
_Path: TypeAlias = tuple[str | int, ...]


@dataclass(frozen=True, slots=True)
class Spot:
    """The place of a number, from character `start` to `end` of a text, or a place where one may be added."""

    start: int
    end: int
    line: int
    before: str = ""
    """Text to add before a number that is new."""
    after: str = ""
    metric: str = ""
    """The metric of a requirement that is new."""


@dataclass(frozen=True, slots=True)
class Written:
    """A number of an entry as it is written: `timeout_s`, or a bound of a metric."""

    entry: str
    """Its name, or `name_of_suite`."""
    metric: str
    """Empty for `timeout_s`."""
    key: str
    text: str | None
    """None if it is not written; a new one may be."""
    spot: Spot

    @property
    def number(self) -> float | None:
        """The number; None for a variable or placeholder."""
        value = resolve_plain(self.text or "")
        return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


class MatrixText:
    """The text of a matrix file and the limits in it."""

    def __init__(self, path: Path) -> None:
        self.path = Path(os.path.realpath(path))
        try:
            self._text = safe_files.read_bytes(self.path).decode("utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise BenchError(f"{path} cannot be read: {error}") from error
        self._line_end = "\r\n" if "\r\n" in self._text else "\n"
        self._entries: list[tuple[str, yaml.MappingNode]] = []
        self._new: dict[tuple[str, str, str], Written | None] = {}
        """Requirements that may be added, by entry, metric and bound."""
        documents = _documents(self._text)
        self.numbers = [found for root in documents for found in self._of_document(root)]
        longest = [_value(root, "max_timeout_s") for root in documents]
        self.longest_timeout_s = next((float(one.value) for one in longest if _is_number(one)), None)

    def replaced(self, numbers: Sequence[tuple[Spot, str]]) -> str:
        """Return the text with these numbers. Raises BenchError if it would differ in anything else."""
        text = self._text
        for spot, number in sorted(numbers, key=lambda one: -one[0].start):
            text = text[: spot.start] + spot.before + number + spot.after + text[spot.end :]
        self._check(text, {number for _, number in numbers}, {spot.metric for spot, _ in numbers})
        return text

    def new_requirement(self, entry: str, metric: str, bound: str) -> Written | None:
        """Return where a requirement of an entry may be added; None if that is not plain to see."""
        key = entry, metric, bound
        if key not in self._new:
            spot = self._spot_of_requirement(entry, metric, bound)
            self._new[key] = None if spot is None else Written(entry, metric, bound, None, spot)
        return self._new[key]

    def _spot_of_requirement(self, entry: str, metric: str, bound: str) -> Spot | None:
        found = [node for name, node in self._entries if name == entry]
        lists = [_value(node, "requirements") for _, node in self._entries]
        own = _value(found[0], "requirements") if len(found) == 1 else None
        text = f"{{metric: {_plain(metric)}, {bound}: "
        if len(found) == 1 and own is None and not any(known[0] == entry for known in self._new):
            spot = self._beside(found[0], f"requirements: [{text}")
            return replace(spot, after="}]", metric=metric)
        if not isinstance(own, yaml.SequenceNode) or not own.value or sum(one is own for one in lists) > 1:
            return None  # of the older form, empty, or shared with other entries
        at, line = own.value[-1].end_mark.index, own.value[-1].start_mark.line + 1
        if own.flow_style:
            return Spot(at, at, line, f", {text}", "}", metric)
        at = self._end_of_line(_end(own.value[-1]))
        return Spot(at, at, line, f"{self._line_end}{' ' * own.start_mark.column}- {text}", "}", metric)

    def _check(self, text: str, numbers: set[str], metrics: set[str]) -> None:
        before, after = (
            {path: value for document, root in enumerate(_documents(one)) for path, value in _leaves(root, (document,))}
            for one in (self._text, text)
        )
        changed = {path for path, value in after.items() if before.get(path) != value}
        is_known = all(
            after[path] in (metrics if path[-1] == "metric" else numbers)
            and path[-1] in (TIMEOUT, "metric", *_WRITTEN_BOUNDS)
            for path in changed
        )
        if not is_known or before.keys() - after.keys():
            raise BenchError(f"{self.path}: limits cannot be written into this file as it is; write them by hand")

    def _of_document(self, root: yaml.Node) -> Iterator[Written]:
        entries = _value(root, "entries")
        for entry in entries.value if isinstance(entries, yaml.SequenceNode) else ():
            if isinstance(entry, yaml.MappingNode) and (name := _name(entry)):
                self._entries.append((name, entry))
                yield self._timeout(entry, name)
                yield from self._bounds(entry, name)

    def _timeout(self, entry: yaml.MappingNode, name: str) -> Written:
        found = _value(entry, TIMEOUT)
        if isinstance(found, yaml.ScalarNode):
            return Written(name, "", TIMEOUT, found.value, _spot(found))
        return Written(name, "", TIMEOUT, None, self._beside(entry, f"{TIMEOUT}: "))

    def _beside(self, entry: yaml.MappingNode, text: str) -> Spot:
        """Return where a key may be added to an entry: after its name."""
        name = _named_by(entry)
        assert name is not None
        at, line = name.end_mark.index, name.end_mark.line + 1
        if entry.flow_style:
            return Spot(at, at, line, f", {text}")
        at = self._end_of_line(at)
        return Spot(at, at, line, f"{self._line_end}{' ' * entry.value[0][0].start_mark.column}{text}")

    def _end_of_line(self, at: int) -> int:
        found = self._text.find(self._line_end, at)
        return found if found >= 0 else len(self._text)

    def _bounds(self, entry: yaml.Node, name: str) -> Iterator[Written]:
        for metric, requirement in _requirements(_value(entry, "requirements")):
            for bound in _WRITTEN_BOUNDS:
                found = _value(requirement, bound)
                if isinstance(found, yaml.ScalarNode):
                    yield Written(name, metric, bound, found.value, _spot(found))


def name_of_suite(line: int) -> str:
    """Return what stands for the name of an `asv:` block, which has none of its own: all its benchmarks share it."""
    return f"asv:{line}"


def _name(entry: yaml.MappingNode) -> str | None:
    named_by = _named_by(entry)
    if named_by is None:
        return None
    return name_of_suite(entry.start_mark.line + 1) if _value(entry, "name") is None else str(named_by.value)


def _named_by(entry: yaml.MappingNode) -> yaml.ScalarNode | None:
    found = _value(entry, "name") or _value(entry, "asv")
    return found if isinstance(found, yaml.ScalarNode) else None


def _documents(text: str) -> list[yaml.Node]:
    try:
        return list(yaml.compose_all(text, Loader=yaml.SafeLoader))
    except (yaml.YAMLError, RecursionError) as error:
        raise BenchError(f"not valid YAML: {str(error).splitlines()[0]}") from error


def _end(node: yaml.Node) -> int:
    """Return the end of a value without the comments and empty lines that follow it."""
    if isinstance(node, yaml.MappingNode) and not node.flow_style and node.value:
        return _end(node.value[-1][1])
    return int(node.end_mark.index)


def _plain(metric: str) -> str:
    """Return a metric as it is written in YAML."""
    is_plain = _PLAIN.fullmatch(metric) and isinstance(resolve_plain(metric), str)
    return metric if is_plain else json.dumps(metric, ensure_ascii=False)


def _is_number(node: yaml.Node | None) -> TypeGuard[yaml.ScalarNode]:
    return isinstance(node, yaml.ScalarNode) and isinstance(resolve_plain(node.value), int | float)


def _spot(node: yaml.Node) -> Spot:
    return Spot(node.start_mark.index, node.end_mark.index, node.start_mark.line + 1)


def _value(node: yaml.Node | None, key: str) -> yaml.Node | None:
    """Return the value of a key, also of one that `<<` merges in."""
    if not isinstance(node, yaml.MappingNode):
        return None
    merged: list[yaml.Node] = []
    for name, value in node.value:
        if name.value == key:
            return cast("yaml.Node", value)
        if name.value == "<<":
            merged += value.value if isinstance(value, yaml.SequenceNode) else [value]
    return next((found for one in merged if (found := _value(one, key)) is not None), None)


def _requirements(node: yaml.Node | None) -> Iterator[tuple[str, yaml.Node]]:
    """Yield metrics and what is required of them, of a list or of the older mapping."""
    if isinstance(node, yaml.SequenceNode):
        for requirement in node.value:
            metric = _value(requirement, "metric")
            if isinstance(metric, yaml.ScalarNode):
                yield metric.value, requirement
    elif isinstance(node, yaml.MappingNode):
        yield from ((metric.value, requirement) for metric, requirement in node.value)


def _leaves(node: yaml.Node, path: _Path) -> Iterator[tuple[_Path, str]]:
    if isinstance(node, yaml.ScalarNode):
        yield path, node.value
    elif isinstance(node, yaml.SequenceNode):
        for number, item in enumerate(node.value):
            yield from _leaves(item, (*path, number))
    else:
        for key, value in node.value:
            yield from _leaves(value, (*path, str(key.value)))
