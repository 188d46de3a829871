"""Hashes of code that ignore comments, formatting and docstrings of Python."""

from __future__ import annotations

import ast
import hashlib
from collections.abc import Iterator
from functools import lru_cache

_LENGTH = 32
_WITH_DOCSTRING = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


@lru_cache(maxsize=64)
def code_hash(source: bytes, *, is_python: bool) -> str:
    """Hash a script. What is not Python, or cannot be parsed, is hashed by its bytes."""
    return hashlib.sha256(_normalized(source) if is_python else source).hexdigest()[:_LENGTH]


def _normalized(source: bytes) -> bytes:
    try:
        return "\n".join(_lines(ast.parse(source))).encode("utf-8", "surrogatepass")
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return source


def _lines(node: ast.AST) -> Iterator[str]:
    """Yield the tree in text. Empty fields are left out, as each version of Python adds some."""
    yield type(node).__name__
    for name, value in ast.iter_fields(node):
        values = value if isinstance(value, list) else [value]
        if name == "body" and isinstance(node, _WITH_DOCSTRING) and ast.get_docstring(node, clean=False) is not None:
            values = values[1:]
        if name != "kind" and values and values != [None]:
            yield f".{name} {len(values)}"
            yield from _values(values)


def _values(values: list[object]) -> Iterator[str]:
    for value in values:
        if isinstance(value, ast.AST):
            yield from _lines(value)
        else:
            yield f"={value!r}"
