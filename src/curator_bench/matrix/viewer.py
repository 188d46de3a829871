"""The address of a page that shows a session's results: its placeholders are checked, and filled in."""

from __future__ import annotations

import re
from collections.abc import Mapping
from urllib.parse import quote

NAMES = ("results_path", "session_name", "session_path")
_PLACEHOLDER = re.compile(r"\{([^{}]*)\}")
_IN_A_URL = "_url"


def wrong_with(template: str) -> str:
    """Return what is wrong with the placeholders of a template; empty if nothing is."""
    for name in _PLACEHOLDER.findall(template):
        if name.removesuffix(_IN_A_URL) not in NAMES:
            known = ", ".join(f"{{{name}}}, {{{name}{_IN_A_URL}}}" for name in NAMES)
            return f"unknown placeholder {{{name}}}; expected {known}"
    return ""


def filled(template: str, values: Mapping[str, str]) -> str:
    """Fill in the placeholders. With `_url` appended to its name, a value is escaped for a URL."""

    def value_of(match: re.Match[str]) -> str:
        name = match[1]
        value = values.get(name.removesuffix(_IN_A_URL))
        if value is None:
            return match[0]
        return quote(value, safe="") if name.endswith(_IN_A_URL) else value

    return _PLACEHOLDER.sub(value_of, template)
