"""Convert older and looser spellings to the current one. Each deprecated spelling gives one warning."""

from __future__ import annotations

from typing import Any

from curator_bench.errors import Mistake
from curator_bench.matrix.scalars import describe
from curator_bench.matrix.tree import Block, Items
from curator_bench.values import Place

_SINK_BLOCKS = ("mlflow", "slack", "wandb", "gdrive")
_BASE_DIR, _OLD_BASE_DIR = "script_base_dir", "script_base_path"
_PATH_KEYS = ("datasets_path", "model_weights_path")


def modernize(document: Block, warnings: list[str]) -> Block:
    """Convert a document to the current spelling: lists for requirements and sink_data, old top-level keys moved."""
    document = document.copy()
    _rename(document)
    _move_results_path(document, warnings)
    _move_paths(document, warnings)
    _move_sinks(document, warnings)
    if isinstance(document.get("entries"), Items):
        document["entries"] = _modernize_entries(document["entries"])
    if isinstance(document.get("data_setups"), Items):
        document["data_setups"] = _modernize_entries(document["data_setups"])
    return document


def datasets_document(datasets: Block, warnings: list[str], mistakes: list[Mistake]) -> Block:
    """Convert the old dataset file, `{"name": {"format": "path"}}`, to a matrix document with a list of datasets."""
    items = Items()
    _note_repeated(datasets, (), mistakes)
    for name, formats in datasets.items():
        place = datasets.places[name]
        if name.startswith("x-"):
            continue
        if not isinstance(formats, Block):
            problem = f"found {describe(formats)}, expected a mapping of formats to paths"
            mistakes.append(Mistake(place, name, problem))
            continue
        _note_repeated(formats, (name,), mistakes)
        block = Block()
        block.put("name", name, place)
        block.put("formats", _formats(formats), place)
        items.add(block, place)
    document = Block()
    if items:
        warnings.append(f"{items.places[0].file}: a JSON file of datasets is deprecated; list them under `datasets:`")
        document.put("datasets", items, items.places[0])
    return document


def _note_repeated(block: Block, path: tuple[str, ...], mistakes: list[Mistake]) -> None:
    for key, place in block.repeated:
        mistakes.append(Mistake(place, ".".join([*path, key]), "is written twice in the same mapping"))


def _formats(formats: Block) -> Items:
    items = Items()
    for name, path in formats.items():
        block = Block()
        block.put("type", name, formats.places[name])
        block.put("path", path, formats.places[name])
        items.add(block, formats.places[name])
    return items


def _rename(block: Block) -> None:
    """Write the keys with two names by their first."""
    for other, name in (("environment", "env"), (_OLD_BASE_DIR, _BASE_DIR)):
        if other in block and name not in block:
            place = block.places[other]
            block.put(name, block.take(other), place)


def _move_results_path(document: Block, warnings: list[str]) -> None:
    if "results_path" not in document:
        return
    place = document.places["results_path"]
    value = document.take("results_path")
    warnings.append(f"{place}: `results_path` is deprecated; write `results_dir`")
    if "results_dir" not in document:
        document.put("results_dir", value, place)


def _move_paths(document: Block, warnings: list[str]) -> None:
    for key in _PATH_KEYS:
        if key not in document:
            continue
        place = document.places[key]
        block = Block()
        block.put("name", key, place)
        block.put("host_path", document.take(key), place)
        warnings.append(f"{place}: `{key}` is deprecated; write `paths: [{{name: {key}, host_path: …}}]`")
        _append(document, "paths", block, place)


def _move_sinks(document: Block, warnings: list[str]) -> None:
    for name in _SINK_BLOCKS:
        if not isinstance(document.get(name), Block):
            continue
        place = document.places[name]
        old = document.take(name)
        block = Block()
        block.put("name", name, place)
        for key, value in old.items():
            block.put(key, value, old.places[key])
        warnings.append(f"{place}: a top-level `{name}:` block is deprecated; write `sinks: [{{name: {name}, …}}]`")
        _append(document, "sinks", block, place)


def _append(document: Block, key: str, block: Block, place: Place) -> None:
    items = document[key].copy() if isinstance(document.get(key), Items) else Items()
    items.add(block, place)
    document.put(key, items, document.places.get(key, place))


def _modernize_entries(entries: Items) -> Items:
    new = Items()
    for entry, place in zip(entries, entries.places, strict=True):
        new.add(_modernize_entry(entry) if isinstance(entry, Block) else entry, place)
    return new


def _modernize_entry(entry: Block) -> Block:
    needs_list = [(key, by) for key, by in _LISTS if _is_mapping(entry.get(key))]
    if not needs_list and "environment" not in entry and _OLD_BASE_DIR not in entry:
        return entry
    entry = entry.copy()
    _rename(entry)
    for key, by in needs_list:
        repeated = [(f"{key}.{name}", place) for name, place in entry[key].repeated]
        entry.repeated = entry.repeated + repeated
        entry[key] = _as_list(entry[key], by)
    return entry


_LISTS = (("requirements", "metric"), ("sink_data", "name"))


def _is_mapping(value: Any) -> bool:
    return isinstance(value, Block) and value.get("enabled") is not False


def _as_list(mapping: Block, by: str) -> Items:
    """Convert `{throughput: {min_value: 3}}` to `[{metric: throughput, min_value: 3}]`."""
    items = Items()
    for name, value in mapping.items():
        place = mapping.places[name]
        if name != "enabled":
            is_block = value is None or isinstance(value, Block)
            items.add(_with_name(by, name, value or Block(), place) if is_block else value, place)
    return items


def _with_name(by: str, name: str, value: Block, place: Place) -> Block:
    block = Block()
    block.put(by, name, place)
    for key, item in value.items():
        block.put(key, item, value.places[key])
    block.repeated, block.anchored = value.repeated, value.anchored
    return block
