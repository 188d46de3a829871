"""`${VAR}` and `${VAR:-default}` in a matrix, and which of their values are secret."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from curator_bench.masking import is_secret_name, password_of


def _default(levels: int) -> str:
    """Build the pattern of a default, which may contain placeholders and variables with defaults: ${A:-${B:-{b}}}.

    No character matches in two ways; otherwise a hostile text would cause exponential backtracking.
    """
    inner = rf"|\$?\{{{_default(levels - 1)}\}}" if levels else ""
    return rf"(?:[^{{}}$]|\$(?!\{{){inner})*+"


PATTERN = rf"\$\$\{{|\$\{{(?P<variable>[A-Za-z_][A-Za-z0-9_]*)(?P<default>:-{_default(3)})?\}}"
_LONG = 8
_VARIABLE = re.compile(PATTERN)


class Variables:
    """Variables a matrix may name. An empty variable counts as not set, as in a shell's `:-`.

    `declared` holds the variables that the matrix lists in `secrets:`.
    """

    def __init__(self, variables: Mapping[str, str], declared: Iterable[str] = ()) -> None:
        self._variables = variables
        self._declared = frozenset(declared)
        self.secrets: set[str] = set()
        self.is_named = False
        """True if any text read so far names a variable. Most matrices name none, so the search can be skipped."""

    def lookup(self, name: str) -> str | None:
        """Look up a variable. A secret value, or the password of a URL, is remembered for masking."""
        value = self._variables.get(name) or None
        if value is not None and self.is_secret(name):
            self.secrets.add(value)
        elif value is not None and (password := password_of(value)):
            self.secrets.add(password)
        return value

    def is_secret(self, name: str) -> bool:
        """True if a variable or key of this name holds a secret."""
        return name in self._declared or is_secret_name(name)

    def holds_secret(self, text: str) -> bool:
        return any(secret in text for secret in self.secrets)

    def is_in(self, names: Iterable[str]) -> bool:
        """True if one of the names equals a secret, contains a long one, is a URL with a password, or names a secret
        variable that is not set here."""
        found = set(names)
        return (
            bool(found & self.secrets)
            or any(map(password_of, found))
            or any(self.is_secret(variable) for name in found for variable in self.missing(name))
            or any(secret in name for secret in self.secrets if len(secret) >= _LONG for name in found)
        )

    def fill(self, text: str) -> tuple[str, tuple[str, ...]]:
        """Fill in the text's variables; return it with the names of those not set. `$${` is a literal `${`."""
        missing: list[str] = []
        filled = _VARIABLE.sub(lambda match: self._value(match, missing), text)
        return filled, tuple(dict.fromkeys(missing))

    def missing(self, text: str) -> tuple[str, ...]:
        return self.fill(text)[1]

    def _value(self, match: re.Match[str], missing: list[str]) -> str:
        name = match["variable"]
        if name is None:
            return "${"
        value = self.lookup(name)
        if value is not None:
            return value
        if match["default"] is None:
            missing.append(name)
            return match[0]
        filled, unset = self.fill(match["default"][2:])
        missing.extend(unset)
        return filled


def unset_message(variables: tuple[str, ...]) -> str:
    names = ", ".join(variables)
    plural = len(variables) > 1
    return f"environment variable{'s' if plural else ''} {names} {'are' if plural else 'is'} not set"
