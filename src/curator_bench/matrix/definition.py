"""The definition of a benchmark and its hashes, the same on every machine and in every clone.

The definition hash decides which runs `--bench-resume` keeps, the series hash which runs are one history. Paths,
secrets and timeouts are not hashed, because they may differ for the same benchmark.
"""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from curator_bench.matrix import placeholders
from curator_bench.matrix.code import code_hash
from curator_bench.matrix.command import find_script, is_named
from curator_bench.matrix.entry_block import axis_names
from curator_bench.matrix.variables import Variables
from curator_bench.values import Dataset, Entry, Generate, RaySettings

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
    """A definition with its hashes. Its texts are not masked."""

    hash: str
    series: str
    """The series hash: runs with the same one are one history."""
    content_hash: str
    """Hash of the content. Comments and formatting of code do not change it."""
    content: Mapping[str, Any]
    """The definition for people: arguments, datasets, Ray's settings and environment, or parameters. Also the values of
    its axes, which are not hashed: where they are used, they are in the other parts."""
    sources: Mapping[str, str]
    """Text of each script by its name, or of the function."""
    parts: Mapping[str, str] = field(default_factory=dict)
    """Short hash of each part of the definition hash, which shows what changed."""


def definition_of(entry: Entry) -> Definition:
    """Describe an entry together with the values of its axes."""
    parts, scripts = _parts(entry, _content), list(_scripts(entry))
    content = {name: parts[name] for name in ("args", "ray", "env")}
    content["datasets"] = sorted(" ".join(_named(dataset)) for dataset in _used(entry))
    code = {script.name: script.code for script in scripts}
    chosen = {value.axis: value.text for value in entry.axes}
    return Definition(
        _digest(parts),
        _digest(_series_parts(entry, content)),
        _digest({**content, "code": code}),
        {**content, "axes": chosen} if chosen else content,
        {script.name: script.text for script in scripts},
        {name: _digest({name: part})[:_SHORT] for name, part in parts.items()},
    )


def function_definition(source: str, parameters: Mapping[str, Any], entries: Sequence[Entry] = ()) -> Definition:
    """Describe a Python benchmark: its source, its parameters, and the entries it is parametrized with."""
    own = {name: repr(value) for name, value in parameters.items()}
    of_entries = {entry.id: definition_of(entry) for entry in entries}
    series = {f"entry {name}": one.series for name, one in of_entries.items()}
    inner = {f"entry {name}": one.content_hash for name, one in of_entries.items()}
    code = code_hash(source.encode("utf-8", "surrogatepass"), is_python=True)
    hashes = {f"entry {name}": repr(one.hash) for name, one in of_entries.items()}
    content = {"parameters": own, **{f"entry {name}": _without_axes(one) for name, one in of_entries.items()}}
    texts = {f"entry {name} {script}": text for name, one in of_entries.items() for script, text in one.sources.items()}
    return Definition(
        _digest({"source": source, "parameters": {**own, **hashes}}),
        _digest({"parameters": own, **series}),
        _digest({"parameters": own, "code": code, **inner}),
        content,
        {"function": source, **texts},
    )


def _without_axes(one: Definition) -> dict[str, Any]:
    return {name: part for name, part in one.content.items() if name != "axes"}


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
    script, _ = find_script(_filled(entry.script, entry, names), entry.script_base_dir, entry.directories)
    variables = Variables({}, entry.secrets)
    return {
        "args": [placeholders.fill(word, names=names) for word in entry.args],
        "script": content(script),
        "datasets": sorted(_dataset(dataset, entry, content) for dataset in _used(entry)),
        "ray": _ray(entry.ray),
        "env": {
            name: None if variables.is_secret(name) else placeholders.fill(value, names=names)
            for name, value in entry.env.items()
        },
    }


def _series_parts(entry: Entry, content: Mapping[str, Any]) -> dict[str, Any]:
    """Return the parts that define a series. Other parts may change within a history, and are then suspects."""
    asked = entry.ray
    return {
        "args": content["args"],
        "datasets": content["datasets"],
        "cpus": asked and asked.num_cpus,
        "gpus": asked and asked.num_gpus,
    }


@dataclass(frozen=True, slots=True)
class _Script:
    name: str
    source: bytes

    @property
    def code(self) -> str:
        return code_hash(self.source, is_python=self.name.endswith(".py"))

    @property
    def text(self) -> str:
        return self.source.decode("utf-8", "replace")


def _scripts(entry: Entry) -> Iterator[_Script]:
    """Yield the entry's script and those that generate its datasets, by the names the matrix gives them."""
    names = axis_names(entry.axes)
    path, _ = find_script(_filled(entry.script, entry, names), entry.script_base_dir, entry.directories)
    yield _Script(placeholders.fill(entry.script, names=names), _bytes(path))
    for dataset in _used(entry):
        if dataset.generate is not None:
            path = _script_of(dataset.generate, entry)
            yield _Script(dataset.generate.script, _bytes(path))


def _filled(script: str, entry: Entry, names: dict[str, str]) -> str:
    """Fill in the placeholders of a script's path. The path is only used to read the script; it is not hashed."""
    file = entry.file
    return placeholders.fill(script, names={**file.paths, placeholders.REPO_DIR: file.curator_repo_dir, **names})


def _script_of(generate: Generate, entry: Entry) -> str:
    return find_script(_filled(generate.script, entry, {}), None, generate.directories)[0]


def _digest(parts: dict[str, Any]) -> str:
    text = json.dumps(parts, sort_keys=True, default=str)
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:_LENGTH]


def _content(path: str) -> str | None:
    try:
        return hashlib.sha256(Path(path).read_bytes()).hexdigest()
    except OSError:
        return None


def _bytes(path: str) -> bytes:
    try:
        return Path(path).read_bytes()
    except OSError:
        return b""


def _used(entry: Entry) -> Iterable[Dataset]:
    return [dataset for dataset in entry.file.datasets.values() if is_named(dataset, entry)]


def _named(dataset: Dataset) -> list[str]:
    """Name, format, and arguments of the generator."""
    return [dataset.name, dataset.format, *(dataset.generate.args if dataset.generate else ())]


def _dataset(dataset: Dataset, entry: Entry, content: Callable[[str], str | None]) -> str:
    """Text to hash for a dataset: its name, format and generator, without its path."""
    parts: list[Any] = [dataset.name, dataset.format]
    if dataset.generate is not None:
        script = _script_of(dataset.generate, entry)
        parts += [content(script), list(dataset.generate.args)]
    return json.dumps(parts)


def _ray(settings: RaySettings | None) -> dict[str, Any] | None:
    if settings is None:
        return None
    return {key: value for key, value in dataclasses.asdict(settings).items() if key not in _NOT_OF_RAY}
