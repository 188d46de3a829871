"""The definition hash: a benchmark's identity, the same on every machine and in every clone.

Only runs with equal hashes are compared. So nothing is hashed that may differ for the same benchmark: no path, no
secret, no timeout.
"""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from curator_bench.matrix import placeholders
from curator_bench.matrix.command import find_script, is_named
from curator_bench.matrix.entry_block import axis_names
from curator_bench.matrix.environment import Environment
from curator_bench.values import Dataset, Entry, RaySettings

_LENGTH = 32
_SHORT = 12
_IN_WORDS = {
    "args": "its arguments",
    "script": "its script",
    "env": "its environment",
    "datasets": "its datasets",
}
# The address of a cluster and its start retries do not define the benchmark.
_NOT_OF_RAY = ("address", "start_retries")


def definition_hash(entry: Entry) -> str:
    """Hash an entry together with the values of its axes."""
    return _digest(_parts(entry, _content))


@dataclass(frozen=True, slots=True)
class Definition:
    """The hash, and a short hash of each part, which shows what changed."""

    hash: str
    parts: Mapping[str, str]


def definition_of(entry: Entry) -> Definition:
    parts = _parts(entry, _content)
    return Definition(_digest(parts), {name: _digest({name: part})[:_SHORT] for name, part in parts.items()})


def what_changed(before: object, entry: Entry) -> str:
    """Say in words what changed. `before` is the `parts` of the definition recorded in the results."""
    if not isinstance(before, Mapping):
        return "its results have no definition"
    changed = [
        _IN_WORDS.get(name, f"its {name}")
        for name, part in definition_of(entry).parts.items()
        if before.get(name) != part
    ]
    return f"{' and '.join(changed) or 'its definition'} changed"


class Definitions:
    """Definition hashes of many entries; each script is read once."""

    def __init__(self) -> None:
        self._content = functools.cache(_content)

    def hash_of(self, entry: Entry) -> str:
        return _digest(_parts(entry, self._content))


def _parts(entry: Entry, content: Callable[[str], str | None]) -> dict[str, Any]:
    names = axis_names(entry.axes)
    script, _ = find_script(_filled(entry.script, entry, names), entry.script_base_dir, entry.file.directory)
    environment = Environment({}, entry.secrets)
    return {
        "args": [placeholders.fill(word, names=names) for word in entry.args],
        "script": content(script),
        "datasets": sorted(_dataset(dataset, entry, content) for dataset in _used(entry)),
        "ray": _ray(entry.ray),
        "env": {
            name: None if environment.is_secret(name) else placeholders.fill(value, names=names)
            for name, value in entry.env.items()
        },
    }


def function_hash(source: str, parameters: dict[str, Any]) -> str:
    """Hash a Python benchmark: its source and its parameters."""
    return _digest({"source": source, "parameters": {name: repr(value) for name, value in parameters.items()}})


def _filled(script: str, entry: Entry, names: dict[str, str]) -> str:
    """Fill in the placeholders of a script's path. The path is only used to read the script; it is not hashed."""
    file = entry.file
    return placeholders.fill(script, names={**file.paths, placeholders.REPO_DIR: file.curator_repo_dir, **names})


def _digest(parts: dict[str, Any]) -> str:
    text = json.dumps(parts, sort_keys=True, default=str)
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:_LENGTH]


def _content(path: str) -> str | None:
    try:
        return hashlib.sha256(Path(path).read_bytes()).hexdigest()
    except OSError:
        return None


def _used(entry: Entry) -> Iterable[Dataset]:
    return [dataset for dataset in entry.file.datasets.values() if is_named(dataset, entry)]


def _dataset(dataset: Dataset, entry: Entry, content: Callable[[str], str | None]) -> str:
    """Text to hash for a dataset: its name, format and generator, without its path."""
    parts: list[Any] = [dataset.name, dataset.format]
    if dataset.generate is not None:
        script, _ = find_script(_filled(dataset.generate.script, entry, {}), None, entry.file.directory)
        parts += [content(script), list(dataset.generate.args)]
    return json.dumps(parts)


def _ray(settings: RaySettings | None) -> dict[str, Any] | None:
    if settings is None:
        return None
    return {key: value for key, value in dataclasses.asdict(settings).items() if key not in _NOT_OF_RAY}
