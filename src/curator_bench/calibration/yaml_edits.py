"""Numbers in the text of a matrix: where they stand, and the text with others. All else stays as it is written.

The places come from PyYAML, which tells them to the character. A library that writes YAML anew would change what people
have aligned.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias, TypeGuard, cast

import yaml

from curator_bench.errors import BenchError
from curator_bench.files import safe_files
from curator_bench.matrix.scalars import resolve_plain
from curator_bench.values import BOUNDS

TIMEOUT = "timeout_s"
_WRITTEN_BOUNDS = tuple(bound for bound in BOUNDS if bound != "exact_value")
_Path: TypeAlias = tuple[str | int, ...]


@dataclass(frozen=True, slots=True)
class Spot:
    """Where a number stands, from character `start` to `end` of a text, or where one may be added."""

    start: int
    end: int
    line: int
    before: str = ""
    """Text to add before a number that is new."""


@dataclass(frozen=True, slots=True)
class Written:
    """A number of an entry as it is written: `timeout_s`, or a bound of a metric."""

    entry: str
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
        documents = _documents(self._text)
        self.numbers = [found for root in documents for found in self._of_document(root)]
        longest = [_value(root, "max_timeout_s") for root in documents]
        self.longest_timeout_s = next((float(one.value) for one in longest if _is_number(one)), None)

    def replaced(self, numbers: Sequence[tuple[Spot, str]]) -> str:
        """Return the text with these numbers. Raises BenchError if it would differ in anything else."""
        text = self._text
        for spot, number in sorted(numbers, key=lambda one: -one[0].start):
            text = text[: spot.start] + spot.before + number + text[spot.end :]
        self._check(text, {number for _, number in numbers})
        return text

    def _check(self, text: str, numbers: set[str]) -> None:
        before, after = (
            {path: value for document, root in enumerate(_documents(one)) for path, value in _leaves(root, (document,))}
            for one in (self._text, text)
        )
        changed = {path for path, value in after.items() if before.get(path) != value}
        is_known = all(after[path] in numbers and path[-1] in (TIMEOUT, *_WRITTEN_BOUNDS) for path in changed)
        if not is_known or before.keys() - after.keys():
            raise BenchError(f"{self.path}: limits cannot be written into this file as it is; write them by hand")

    def _of_document(self, root: yaml.Node) -> Iterator[Written]:
        entries = _value(root, "entries")
        for entry in entries.value if isinstance(entries, yaml.SequenceNode) else ():
            name = _value(entry, "name")
            if isinstance(name, yaml.ScalarNode):
                yield self._timeout(entry, name)
                yield from self._bounds(entry, name.value)

    def _timeout(self, entry: yaml.MappingNode, name: yaml.ScalarNode) -> Written:
        found = _value(entry, TIMEOUT)
        if isinstance(found, yaml.ScalarNode):
            return Written(name.value, "", TIMEOUT, found.value, _spot(found))
        line, at, before = name.end_mark.line + 1, name.end_mark.index, f", {TIMEOUT}: "
        if not entry.flow_style:
            line_end = "\r\n" if "\r\n" in self._text else "\n"
            at = found_at if (found_at := self._text.find(line_end, at)) >= 0 else len(self._text)
            before = f"{line_end}{' ' * entry.value[0][0].start_mark.column}{TIMEOUT}: "
        return Written(name.value, "", TIMEOUT, None, Spot(at, at, line, before))

    def _bounds(self, entry: yaml.Node, name: str) -> Iterator[Written]:
        for metric, requirement in _requirements(_value(entry, "requirements")):
            for bound in _WRITTEN_BOUNDS:
                found = _value(requirement, bound)
                if isinstance(found, yaml.ScalarNode):
                    yield Written(name, metric, bound, found.value, _spot(found))


def _documents(text: str) -> list[yaml.Node]:
    try:
        return list(yaml.compose_all(text, Loader=yaml.SafeLoader))
    except (yaml.YAMLError, RecursionError) as error:
        raise BenchError(f"not valid YAML: {str(error).splitlines()[0]}") from error


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
