"""Validate the block of a sink with the sink's own model. Mistakes read like all others of a matrix."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

from pydantic import BaseModel

from curator_bench.errors import Mistake
from curator_bench.matrix.tree import Block, Items
from curator_bench.matrix.validation import validated
from curator_bench.values import Entry, Place, SinkSettings

Model = TypeVar("Model", bound=BaseModel)


def sink_config(sink: SinkSettings, model: type[Model], mistakes: list[Mistake]) -> Model | None:
    """Validate a sink's settings; None if there are mistakes, which are added to the list."""
    block = _block(sink.settings, sink.place, sink.places)
    shown = Items()
    shown.add(_block({"name": sink.name, **sink.settings}, sink.place, sink.places), sink.place)
    root = _block({"sinks": shown}, sink.place, {})
    return validated(model, block, sink.place, ("sinks", 0), root, mistakes)


def sink_data(entry: Entry, sink: str, model: type[BaseModel], mistakes: list[Mistake]) -> None:
    """Validate an entry's data for a sink. Mistakes are added to the list, with the line of the entry."""
    block = _block(entry.sink_data[sink], entry.place, {})
    data = Items()
    data.add(_block({"name": sink}, entry.place, {}), entry.place)
    entries = Items()
    entries.add(_block({"name": entry.name, "sink_data": data}, entry.place, {}), entry.place)
    root = _block({"entries": entries}, entry.place, {})
    validated(model, block, entry.place, ("entries", 0, "sink_data", 0), root, mistakes)


def _block(values: Mapping[str, Any], place: Place, places: Mapping[str, Place]) -> Block:
    block = Block()
    for key, value in values.items():
        here = places.get(key, place)
        block.put(key, _node(value, here), here)
    return block


def _node(value: Any, place: Place) -> Any:
    if isinstance(value, Block | Items):
        return value
    if isinstance(value, Mapping):
        return _block(value, place, {})
    if isinstance(value, list):
        items = Items()
        for item in value:
            items.add(_node(item, place), place)
        return items
    return value
