"""Secrets: which names announce one, and how their values are taken out of whatever is about to be written."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

# Whole words only: a tokenizer, max_tokens and a monkey are no secrets.
_SECRET_WORD = re.compile(r"(?<![A-Za-z])(token|key|apikey|secret|password|passwd|webhook)(?![A-Za-z])", re.IGNORECASE)
_CAMEL_HUMP = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_URL_CREDENTIALS = re.compile(r"(?<=://)([^/\s:@]*):([^/\s@]+)@")
_URL_SECRET_PART = re.compile(r"([?&][^=&\s]*(?:token|key|secret|password|webhook)[^=&\s]*=)[^&\s#]+", re.IGNORECASE)
_SHORTEST_SECRET = 4


def is_secret_name(name: str) -> bool:
    """Whether a variable or key of this name holds something that must never be written."""
    return _SECRET_WORD.search(_CAMEL_HUMP.sub("_", name)) is not None


@dataclass(frozen=True, slots=True)
class Mask:
    """The secret values known in this process; `hide` takes them out of a text that is about to be written."""

    values: frozenset[str] = frozenset()

    def hide(self, text: str) -> str:
        for value in sorted(self.values, key=len, reverse=True):
            if len(value) >= _SHORTEST_SECRET:
                text = text.replace(value, "***")
        text = _URL_CREDENTIALS.sub(r"\1:***@", text)
        return _URL_SECRET_PART.sub(r"\1***", text)

    def also(self, values: frozenset[str]) -> Mask:
        return Mask(self.values | values)


def masked(value: Any, mask: Mask) -> Any:
    """The value with every text in it masked."""
    if isinstance(value, str):
        return mask.hide(value)
    if isinstance(value, dict):
        return {mask.hide(str(key)): masked(item, mask) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [masked(item, mask) for item in value]
    return value
