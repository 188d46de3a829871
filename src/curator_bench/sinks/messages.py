"""Messages for sinks as JSON: lines of a sink's journal, and calls to a sink in a child process."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

from curator_bench.files.codec import from_document, to_document
from curator_bench.values import Run, RunRecord, Session, Summary

Message: TypeAlias = Session | Run | RunRecord | Summary
_KINDS: Mapping[str, type[Message]] = {
    **{kind.__name__: kind for kind in (Session, Run, RunRecord, Summary)},
    "Result": RunRecord,  # in journals of the first release
}


def to_message(value: Message) -> dict[str, Any]:
    """Return the message with its kind, in builtin types."""
    return {"kind": type(value).__name__, **to_document(value)}


def from_message(document: Any) -> Message:
    """Inverse of `to_message`. Raises ValueError."""
    kind = _KINDS.get(document.get("kind", "")) if isinstance(document, Mapping) else None
    if kind is None:
        raise ValueError(f"found {str(document)[:60]!r}, expected a message for a sink")
    return from_document(kind, document)
