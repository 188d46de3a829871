"""Axes: the product of their values, minus `exclude`, plus `include`. Also the ids and folder names of combinations."""

from __future__ import annotations

import hashlib
import itertools
import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from curator_bench.errors import Mistake
from curator_bench.matrix import placeholders
from curator_bench.matrix.scalars import describe
from curator_bench.matrix.tree import Block, Items
from curator_bench.values import AxisValue, Place, Scalar

MAX_COMBINATIONS = 100_000
_UNSAFE_IN_FOLDERS = re.compile(r"[^A-Za-z0-9._]+")
_UNSAFE_IN_IDS = re.compile(r"[\x00-\x1f\x7f]|::")
_LONGEST_FOLDER = 80

Combination = tuple[AxisValue, ...]


class AxesReader:
    """Reader of one entry's `matrix`, `exclude` and `include`. Mistakes are collected with their places."""

    def __init__(self, entry: Block, path: str, place: Place, mistakes: list[Mistake]) -> None:
        self._entry = entry
        self._path = path
        self._place = place
        self._mistakes = mistakes

    def combinations(self) -> list[Combination]:
        """Read every combination the entry runs for; one empty combination if it has no axes."""
        known_mistakes = len(self._mistakes)
        axes = self._axes()
        count = math.prod(len(values) for values in axes.values())
        if count > MAX_COMBINATIONS:
            self._wrong("matrix", f"found {count:,} combinations, expected at most {MAX_COMBINATIONS:,}")
            return []
        excluded = self._conditions("exclude", axes)
        if not axes and not self._entry.get("include"):
            return [()]
        product: list[Combination] = [tuple(choice) for choice in itertools.product(*axes.values())] if axes else []
        kept = [choice for choice in product if not (excluded and _matches_any(choice, excluded))]
        combinations = self._included(kept, axes)
        if not combinations and len(self._mistakes) == known_mistakes:
            self._wrong("exclude", "leaves no combination of the axes to run")
        return combinations

    def _wrong(self, key: str, problem: str, place: Place | None = None) -> None:
        place = place or self._entry.places.get(key, self._place)
        self._mistakes.append(Mistake(place, f"{self._path}.{key}", problem))

    def _axes(self) -> dict[str, list[AxisValue]]:
        matrix = self._entry.get("matrix")
        if matrix is None:
            return {}
        if not isinstance(matrix, Block):
            self._wrong("matrix", f"found {describe(matrix)}, expected a mapping of axis names to their values")
            return {}
        axes = {}
        for name, values in matrix.items():
            self._check_name(name, f"matrix.{name}", matrix.places[name])
            axes[name] = self._values(name, values, matrix.places[name])
        return axes

    def _check_name(self, name: str, where: str, place: Place) -> None:
        if name in placeholders.RESERVED:
            self._wrong(where, "this is the name of a placeholder; choose another name for the axis", place)
        elif not placeholders.NAME.match(name):
            problem = f"found the axis name {name!r}, expected a letter or _ and then letters, digits, _ and -"
            self._wrong(where, problem, place)

    def _values(self, axis: str, values: Any, place: Place) -> list[AxisValue]:
        where = f"matrix.{axis}"
        if isinstance(values, Block) and values:
            return [self._named(axis, name, fields, where, values.places[name]) for name, fields in values.items()]
        if not isinstance(values, Items) or not values:
            problem = f"found {describe(values)}, expected a list of values or a mapping of named ones"
            self._wrong(where, problem, place)
            return []
        first_by_text: dict[str, AxisValue] = {}
        for index, item in enumerate(values):
            value = self._listed(axis, item, f"{where}[{index}]", values.places[index])
            if value is not None and value.text in first_by_text:
                self._wrong(where, f"found {value.text!r} a second time", values.places[index])
            elif value is not None:
                first_by_text[value.text] = value
        return list(first_by_text.values())

    def _listed(self, axis: str, value: Any, where: str, place: Place) -> AxisValue | None:
        if isinstance(value, Block):
            name = text_of(value.get("name"))
            if value.get("name") is None or isinstance(value["name"], Block | Items):
                self._wrong(where, "found a mapping without a name, expected a key `name`", place)
                return None
            fields = value.copy()
            fields.take("name")
            return self._named(axis, name, fields, where, place)
        if isinstance(value, Items):
            self._wrong(where, f"found {describe(value)}, expected a text, a number, true or false", place)
            return None
        return AxisValue(axis, text_of(value), _scalar(value))

    def _named(self, axis: str, name: str, fields: Any, where: str, place: Place) -> AxisValue:
        if fields is None:
            return AxisValue(axis, name, name)
        if not isinstance(fields, Block):
            found = describe(fields)
            self._wrong(f"{where}.{name}", f"found {found}, expected a mapping of its fields, may be {{}}", place)
            return AxisValue(axis, name, name)
        for key, value in fields.items():
            if isinstance(value, Block | Items):
                problem = f"found {describe(value)}, expected a text, a number, true or false"
                self._wrong(f"{where}.{name}.{key}", problem, fields.places[key])
        return AxisValue(axis, name, name, {key: _scalar(value) for key, value in fields.items()})

    def _conditions(self, key: str, axes: Mapping[str, list[AxisValue]]) -> list[dict[str, str]]:
        conditions = []
        for index, item, place in self._mappings(key):
            where = f"{key}[{index}]"
            for axis, value in item.items():
                if axis not in axes:
                    self._wrong(where, f"unknown axis {axis!r}{placeholders.nearest(axis, axes)}", place)
                elif text_of(value) not in (texts := [known.text for known in axes[axis]]):
                    near = placeholders.nearest(text_of(value), texts)
                    self._wrong(f"{where}.{axis}", f"unknown value {text_of(value)!r}{near}", item.places[axis])
            conditions.append({axis: text_of(value) for axis, value in item.items()})
        return conditions

    def _mappings(self, key: str) -> Iterable[tuple[int, Block, Place]]:
        items = self._entry.get(key)
        if items is None:
            return
        if not isinstance(items, Items):
            self._wrong(key, f"found {describe(items)}, expected a list of mappings of axis names to values")
            return
        for index, item in enumerate(items):
            if isinstance(item, Block) and item:
                yield index, item, items.places[index]
            else:
                problem = f"found {describe(item)}, expected a mapping of axis names to values"
                self._wrong(f"{key}[{index}]", problem, items.places[index])

    def _included(self, combinations: list[Combination], axes: Mapping[str, list[AxisValue]]) -> list[Combination]:
        """Apply `include` as GitHub Actions does.

        An item adds its extra keys to every combination it matches. If it matches none, it becomes a combination
        itself.
        """
        extras: list[Combination] = [() for _ in combinations]
        alone: list[Combination] = []
        texts = [_texts(choice) for choice in combinations]
        for index, item, place in self._mappings("include"):
            values = self._included_values(f"include[{index}]", item, axes, place)
            condition = {value.axis: value.text for value in values if value.axis in axes}
            fitting = [number for number, choice in enumerate(texts) if condition.items() <= choice.items()]
            if not fitting:
                alone.append(tuple(values))
            for number in fitting:
                added = [replace(value, named=False) for value in values if value.axis not in axes]
                extras[number] = _later_wins(extras[number], added)
        return [original + extra for original, extra in zip(combinations, extras, strict=True)] + alone

    def _included_values(
        self, where: str, item: Block, axes: Mapping[str, list[AxisValue]], place: Place
    ) -> list[AxisValue]:
        values = []
        for axis, value in item.items():
            known = next((known for known in axes.get(axis, []) if known.text == text_of(value)), None)
            if known is None:
                self._check_name(axis, f"{where}.{axis}", place)
                known = self._listed(axis, value, f"{where}.{axis}", place)
            if known is not None:
                values.append(known)
        return values


def _later_wins(old: Combination, new: Sequence[AxisValue]) -> Combination:
    return tuple({value.axis: value for value in [*old, *new]}.values())


def _texts(choice: Combination) -> dict[str, str]:
    return {value.axis: value.text for value in choice}


def _matches_any(choice: Combination, conditions: Sequence[Mapping[str, str]]) -> bool:
    texts = _texts(choice)
    return any(condition.items() <= texts.items() for condition in conditions)


def text_of(value: Scalar) -> str:
    """Text of a value in ids and on command lines."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)


def _scalar(value: Any) -> Scalar:
    """The value, with subclasses of str (which carry where a text came from) turned into plain str."""
    return str(value) if isinstance(value, str) else value


def ids(combinations: Sequence[Combination]) -> list[str]:
    """Make one id per combination: its values joined by `-`, with a number where two would be equal.

    Values added by `include` are not part of the id, so that adding them keeps the history.
    """
    taken: set[str] = set()
    found = []
    for choice in combinations:
        own = [value.text for value in choice if value.named]
        base = _UNSAFE_IN_IDS.sub("_", "-".join(own)) or "empty"
        unique = base
        for number in itertools.count(2):
            if unique not in taken:
                break
            unique = f"{base}-{number}"
        taken.add(unique)
        found.append(unique)
    return found


def safe_folders(texts: Iterable[str], taken: Iterable[str] = ()) -> dict[str, str]:
    """Choose a folder name for each text, safe on any file system and different for different texts.

    A text whose plain folder name another text needs too (or is among `taken`) gets a short hash.
    """
    plain = {text: _safe(text) for text in texts}
    reserved = {name.casefold() for name in taken}
    wanted = Counter(folder.casefold() for folder in plain.values())
    as_they_are = Counter(folder.casefold() for text, folder in plain.items() if text == folder)

    def stays(text: str, folder: str) -> bool:
        key = folder.casefold()
        return key not in reserved and (wanted[key] == 1 or (folder == text and as_they_are[key] == 1))

    return {text: folder if stays(text, folder) else f"{folder}_{_short_hash(text)}" for text, folder in plain.items()}


def _safe(text: str) -> str:
    folder = _UNSAFE_IN_FOLDERS.sub("_", text).strip(".")
    if not folder or len(folder) > _LONGEST_FOLDER:
        return f"{folder[:_LONGEST_FOLDER]}_{_short_hash(text)}"
    return folder


def _short_hash(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:8]
