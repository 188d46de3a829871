"""Resolves the name of a sink to its class: built in, from another package, from a module, or from a file."""

from __future__ import annotations

import importlib
import importlib.util
from pathlib import Path
from typing import Any

from curator_bench import extensions
from curator_bench.errors import BenchError, MissingExtra
from curator_bench.sinks.adapters import adapted
from curator_bench.sinks.sink import Sink, SinkConfig

_WHAT = "sink"
BUILT_IN = {
    "mlflow": "curator_bench.sinks.mlflow:MlflowSink",
    "slack": "curator_bench.sinks.slack:SlackSink",
    "wandb": "curator_bench.sinks.wandb:WandbSink",
    "gdrive": "curator_bench.sinks.gdrive:GdriveSink",
    "jsonl": "curator_bench.sinks.jsonl:JsonlSink",
    "github": "curator_bench.sinks.github:GithubSink",
    "copy": "curator_bench.sinks.copying:CopySink",
}


class UnknownSink(BenchError):
    """The name of no known sink. `known` lists the names there are."""

    def __init__(self, name: str, known: list[str]) -> None:
        super().__init__(f"unknown sink {name!r}")
        self.known = known


def is_built_in(name: str) -> bool:
    return name in BUILT_IN


def check_known(name: str) -> None:
    """Raise UnknownSink for an unknown name. Nothing is imported; `module:Class` names are not checked."""
    known = [*BUILT_IN, *extensions.offered_as(_WHAT)]
    if ":" not in name and name not in known:
        raise UnknownSink(name, known)


def find(name: str, folder: Path) -> type[Sink[Any]]:
    """Return the class of a sink. Files are looked for in `folder`. Raises BenchError if the name does not resolve."""
    if name in BUILT_IN:
        return adapted(extensions.load(_WHAT, BUILT_IN[name], folder), name)
    if ":" in name:
        return adapted(extensions.load(_WHAT, name, folder), name)
    check_known(name)
    return adapted(extensions.find(_WHAT, name, folder), name)


def check_extra(kind: type[Sink[Any]], name: str) -> None:
    """Raise MissingExtra if the library of a sink is not installed. The library is not imported."""
    if kind.needs is not None and importlib.util.find_spec(kind.needs[0]) is None:
        raise MissingExtra(f"the sink {name}", kind.needs[1])


def check_ready(kind: type[Sink[Any]], name: str, config: SinkConfig) -> None:
    """Raise BenchError if the library or a required setting of a sink is missing."""
    check_extra(kind, name)
    if missing := config.lacks():
        raise BenchError(f"the sink {name} needs {missing}")
