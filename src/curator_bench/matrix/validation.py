"""Validate a tree with a pydantic model, and report mistakes in the words of a matrix: path, found, expected."""

from __future__ import annotations

import typing
from collections.abc import Iterator
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from curator_bench.errors import Mistake
from curator_bench.matrix.placeholders import nearest
from curator_bench.matrix.scalars import describe, resolve_plain
from curator_bench.matrix.tree import Block, Filled, Items, Step, Undefined, leaves, place_of, show_path
from curator_bench.matrix.variables import unset_message
from curator_bench.values import Place

Model = TypeVar("Model", bound=BaseModel)
Path = tuple[Step, ...]
Problems = dict[Path, str]

_EXPECTED = {
    "string_type": "text",
    "int_type": "a whole number",
    "int_from_float": "a whole number",
    "int_parsing": "a whole number",
    "float_type": "a number",
    "float_parsing": "a number",
    "finite_number": "a finite number",
    "bool_type": "true or false",
    "bool_parsing": "true or false",
    "list_type": "a list",
    "dict_type": "a mapping",
    "model_type": "a mapping",
    "model_attributes_type": "a mapping",
}
_EXPECTED_WITH = {
    "greater_than": "more than {gt:g}",
    "greater_than_equal": "at least {ge:g}",
    "less_than_equal": "at most {le:,.0f}",
    "too_short": "at least {min_length} item",
    "literal_error": "{expected}",
}


def validated(
    model: type[Model], tree: Block, where: Place, above: Path, root: Any, out: list[Mistake]
) -> Model | None:
    """Convert the tree to a model; None if there are mistakes, which are added to `out`."""
    found, problems = checked(model, tree)
    for path, problem in problems.items():
        out.append(Mistake(place_of(tree, path, where), show_path(root, above + path), problem))
    return found


def checked(model: type[Model], tree: Block) -> tuple[Model | None, Problems]:
    """Convert the tree to a model; None with the problems by path if there are mistakes.

    A quoted variable counts as a number or switch where one is expected. An undefined variable is not a mistake: where
    its text does not fit, the value counts as absent, and the entry that needs it reports it.
    """
    original = tree
    while True:
        try:
            return model.model_validate(tree), {}
        except ValidationError as error:
            problems = dict(_problems(model, tree, error))
        undefined = {path: value for path, value, _ in leaves(original, _NOWHERE) if isinstance(value, Undefined)}
        if resolvable := {path: value for path in problems if (value := _resolved(tree, path)) is not None}:
            tree = _replaced(tree, resolvable)
            continue
        real = dict(_apart_from(undefined, problems))
        if real:
            return None, real
        uncut = {path: _cut(tree, path) for path in problems}
        if not all(uncut.values()):
            variables = [name for path, value in undefined.items() for name in value.variables]
            return None, {
                path: unset_message(tuple(dict.fromkeys(variables))) for path, cut in uncut.items() if not cut
            }
        tree = _replaced(tree, dict.fromkeys(uncut.values(), _ABSENT))


_ABSENT = object()
_NOWHERE = Place("", 0)


def _resolved(tree: Block, path: Path) -> Any:
    value = _value_at(tree, path)
    if not isinstance(value, Filled):
        return None
    resolved = resolve_plain(value)
    return None if isinstance(resolved, str) else resolved


def _value_at(tree: Any, path: Path) -> Any:
    for step in path:
        if isinstance(tree, Block) and isinstance(step, str) and step in tree:
            tree = tree[step]
        elif isinstance(tree, Items) and isinstance(step, int) and step < len(tree):
            tree = tree[step]
        else:
            return _ABSENT
    return tree


def _apart_from(undefined: typing.Collection[Path], problems: Problems) -> Iterator[tuple[Path, str]]:
    """Yield the problems neither at, nor above, nor below an undefined variable."""
    above = {path[:length] for path in undefined for length in range(len(path) + 1)}
    for path, problem in problems.items():
        if path not in above and not any(path[:length] in undefined for length in range(len(path))):
            yield path, problem


def _cut(tree: Block, path: Path) -> Path:
    """Nearest path upwards that can be removed: an existing key. Items of lists are not removed."""
    while path and (not isinstance(path[-1], str) or _value_at(tree, path) is _ABSENT):
        path = path[:-1]
    return path


def _replaced(tree: Any, values: dict[Path, Any]) -> Any:
    """Copy the tree with other values at these paths."""
    copy: Any = tree.copy()
    deeper: dict[Step, dict[Path, Any]] = {}
    for path, value in values.items():
        if len(path) > 1:
            deeper.setdefault(path[0], {})[path[1:]] = value
        elif value is not _ABSENT:
            copy[path[0]] = value
    for step, inside in deeper.items():
        copy[step] = _replaced(copy[step], inside)
    for path in values:
        if len(path) == 1 and values[path] is _ABSENT:
            del copy[path[0]]
    return copy


def _problems(model: type[BaseModel], tree: Block, error: ValidationError) -> Iterator[tuple[Path, str]]:
    """Yield path and problem of each mistake. Failed members of a union at one place become one problem."""
    by_path: dict[Path, list[dict[str, Any]]] = {}
    for detail in error.errors(include_url=False):
        by_path.setdefault(_path_in(tree, detail), []).append(typing.cast("dict[str, Any]", detail))
    above = {path[:length] for path in by_path for length in range(len(path))}
    for path, details in by_path.items():
        if path in above:
            continue  # one union member has the right shape; its own mistake is reported
        yield path, _tell(model, path, details)


def _path_in(tree: Any, detail: Any) -> Path:
    """Path of an error. Pydantic puts the names of union members between the steps; they are removed."""
    location, path, node = detail["loc"], [], tree
    for step in location:
        inner = _value_at(node, (step,)) if isinstance(node, Block | Items) else _ABSENT
        if inner is not _ABSENT:
            node = inner
        elif not (step == location[-1] and detail["type"] in ("missing", "extra_forbidden")):
            continue
        path.append(step)
    return tuple(path)


def _tell(model: type[BaseModel], path: Path, details: list[dict[str, Any]]) -> str:
    first = details[0]
    if first["type"] == "extra_forbidden":
        return f"unknown key{nearest(str(path[-1]), _known_keys(model, path[:-1]))}"
    if first["type"] == "missing":
        return "is missing"
    own_words = [detail for detail in details if detail["type"] == "value_error"]
    if own_words:
        problem = str(own_words[0]["ctx"]["error"])
        return f"found {describe(first['input'])}, {problem}" if problem.startswith("expected") else problem
    expected = list(dict.fromkeys(_expected(detail) for detail in details))
    separator = ", " if any(" or " in choice for choice in expected) else " or "
    return f"found {describe(first['input'])}, expected {separator.join(expected)}"


def _expected(detail: dict[str, Any]) -> str:
    kind = detail["type"]
    if kind in _EXPECTED:
        return _EXPECTED[kind]
    if kind in _EXPECTED_WITH:
        return _EXPECTED_WITH[kind].format(**detail["ctx"])
    return str(detail["msg"])


def _known_keys(model: type[BaseModel], path: Path) -> list[str]:
    models = [model]
    for step in path:
        if isinstance(step, str):
            fields = [found.model_fields[step] for found in models if step in found.model_fields]
            models = [inner for field in fields for inner in _models_in(field.annotation)]
    return [key for found in models for key in found.model_fields]


def _models_in(annotation: Any) -> Iterator[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for argument in typing.get_args(annotation):
        yield from _models_in(argument)


def plain(tree: Any) -> Any:
    """Convert the tree to plain dicts, lists and texts."""
    if isinstance(tree, Block):
        return {key: plain(value) for key, value in tree.items()}
    if isinstance(tree, Items):
        return [plain(value) for value in tree]
    return str(tree) if isinstance(tree, str) else tree
