"""Overlays: merge one tree over another. Nothing is changed in place, because YAML anchors share parts."""

from __future__ import annotations

from typing import Any

from curator_bench.matrix.tree import Block, Items

_IDENTITY_KEYS = ("name", "metric", "type")


def merge(base: Any, overlay: Any) -> Any:
    """Merge `overlay` over `base`.

    Scalars: the overlay wins. Mappings: deep. Lists: item by item (see `_merge_lists`).
    """
    if isinstance(base, Block) and isinstance(overlay, Block):
        return _merge_blocks(base, overlay)
    if isinstance(base, Items) and isinstance(overlay, Items):
        return _merge_lists(base, overlay)
    return overlay


def merge_document(base: Block, overlay: Block) -> tuple[Block, set[int]]:
    """Merge an overlay file over a matrix file.

    Overlay entries that match no entry are left out. Return the positions of the overlay's entries that matched, so
    that the caller can report the others.
    """
    entries, overlay_entries = base.get("entries"), overlay.get("entries")
    if not isinstance(overlay_entries, Items):
        return _merge_blocks(base, overlay), set()
    base_names = _positions(entries, "name") if isinstance(entries, Items) else {}
    matched: set[int] = set()
    kept = Items()
    for index, entry in enumerate(overlay_entries):
        if isinstance(entry, Block) and _identity(entry.get("name")) in base_names:
            matched.add(index)
            kept.add(entry, overlay_entries.places[index])
    narrowed = overlay.copy()
    narrowed["entries"] = kept
    return _merge_blocks(base, narrowed), matched


def append_entry(base: Block, overlay: Block, index: int) -> Block:
    """Append one entry of the overlay to the base's entries."""
    merged = base.copy()
    entries = base["entries"].copy() if isinstance(base.get("entries"), Items) else Items()
    entries.add(overlay["entries"][index], overlay["entries"].places[index])
    merged.put("entries", entries, base.places.get("entries", overlay.places["entries"]))
    return merged


def _merge_blocks(base: Block, overlay: Block) -> Block:
    merged = base.copy()
    merged.repeated = base.repeated + overlay.repeated
    merged.anchored = base.anchored | overlay.anchored
    for key, value in overlay.items():
        place = overlay.places[key]
        if key in base:
            value = merge(base[key], value)
            place = base.places[key] if value is base[key] else place
        merged.put(key, value, place)
    return merged


def _merge_lists(base: Items, overlay: Items) -> Items:
    """Merge lists: equal items are dropped, mappings are merged with those of the same name, the rest is appended."""
    merged = base.copy()
    known = {_identity(item) for item in base}
    namesakes: dict[str, dict[Any, list[int]]] = {}
    for item, place in zip(overlay, overlay.places, strict=True):
        if _identity(item) in known:
            continue
        key = _identity_key(item)
        if key is not None and key not in namesakes:
            namesakes[key] = _positions(base, key)
        positions = namesakes[key].get(_identity(item[key])) if key is not None else None
        if positions:
            merged[positions[0]] = merge(merged[positions[0]], item)
        else:
            merged.add(item, place)
    return merged


def _identity_key(item: Any) -> str | None:
    """Key that identifies a mapping in a list: name, metric, type, otherwise its first key."""
    if not isinstance(item, Block) or not item:
        return None
    return next((key for key in _IDENTITY_KEYS if key in item), next(iter(item)))


def _positions(items: Items, key: str) -> dict[Any, list[int]]:
    """Positions of a list's mappings, by their value under `key`."""
    positions: dict[Any, list[int]] = {}
    for index, item in enumerate(items):
        if isinstance(item, Block) and key in item:
            positions.setdefault(_identity(item[key]), []).append(index)
    return positions


def _identity(value: Any) -> Any:
    """Comparable form of a value: equal for values that are written the same.

    To Python, true, 1 and 1.0 are equal, and .nan differs from itself.
    """
    if isinstance(value, Block):
        return frozenset((key, _identity(inner)) for key, inner in value.items())
    if isinstance(value, Items):
        return tuple(_identity(inner) for inner in value)
    return value if isinstance(value, str) else (type(value), repr(value))
