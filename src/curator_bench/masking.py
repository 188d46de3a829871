"""Secrets: recognise them by name, and remove their values from everything that is written."""

from __future__ import annotations

import functools
import html
import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote, quote_plus, unquote

HIDDEN = "***"
SHORTEST_SECRET = 4
_SHORTEST_PART = 8
"""Shortest part of a secret (a line, the path of a URL), number, or value from the environment that is masked."""
_NO_SECRETS = frozenset(["true", "false", "none", "null"])

# Names are split into words: PGPASSWORD is one, api-key and apiKey are two; X_TOKEN_2 ends with TOKEN.
_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")
_SECRET_WORD = re.compile(
    r"\w*(?:password|passwd|passphrase|passcode|dsn)s?|secrets?|webhooks?|credentials?|creds|authorization"
    r"|(?:access|api|auth|bearer|gh|hf|refresh)?token|(?:access|api|auth|private|secret|ssh)keys?"
    r"|(?:db|ftp|my|mysql|pg|smtp|sql)(?:pass|pwd)|connectionstring"
)
_SECRET_WORDS = re.compile(
    r"\b(?:(?:access|account|api|auth|client|deploy|encryption|master|private|secret|service|signing|ssh) keys?"
    r"|(?:access|api|auth|bearer|bot|refresh|secret) tokens|conn(?:ection)? str(?:ing)?|\w+ (?:auth|pass|pwd)$)\b"
)

# A password may hold "@" and "/", and so may the path behind it: up to the last "@" all is taken for the password.
_URL_CREDENTIALS = re.compile(
    r"(:(?://|\\/\\/)[^/\s:\[]{0,200}):(?![0-9]{1,5}[/?#])(?:[^?#\s]{1,500}|[^/?#\s]+|[^\s@]{1,200})@"
)
_QUOTED_URL_CREDENTIALS = re.compile(r"(?i)(%3a%2f%2f(?:[^/\s:&%]|%25){0,200}%3a)[^\s&]{1,500}?(?=%40)")
_URL_TOKEN = re.compile(r"(?:(?<=https://)|(?<=http://))[^/\s:@]{16,}(?=(?::(?:x-oauth-basic)?)?@)")
_URL_PARAMETER = re.compile(r"([?&;])([^=&;?\s]{1,100})=[^&\s#]+")
# As libpq and shells write it: host=h password='a b', DB_PASSWORD=x
_ASSIGNMENT = re.compile(r"""(?<![^\s'"])([A-Za-z_][\w-]{2,60})=('[^'\n]{1,200}'|[^\s'"]+)""")
# As source code writes it: PASSWORD = "x", {"password": "x"}, record("api_key", "x"), password: str = "x"
_LITERAL = re.compile(
    r"""(?<![\w-])([A-Za-z_][\w-]{1,60})(["']?\s{0,9}(?::[^=,\n"']{1,60}=|[,:=]|=>|:=|==)\s{0,9}[bfru]{0,2})(["']{1,3})(?=[^"'\s])"""
    r"""((?:\\.|(?!\3)[^\\]){1,2000})\3""",
    re.IGNORECASE | re.DOTALL,
)
_UNCHANGED = re.compile("[A-Za-z0-9]+")
_ESCAPE_SEQUENCE = re.compile(r"\x1b(\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(\x07|\x1b\\)?|[ -/]*[0-~])")
_PASSWORD_OF_URL = re.compile(r"[a-zA-Z][a-zA-Z0-9+.-]*://[^/\s:\[]*:(.*)@")


def is_secret_name(name: str) -> bool:
    """True if a variable or setting of this name holds a secret: `PGPASSWORD`, `api_key`, `SENTRY_DSN`."""
    words = _words(name)
    return "key" in words.split() or _announce_a_secret(words)


def is_secret_option(option: str) -> bool:
    """True if an option of this name takes a secret. A plain key does not count: `--text-key text` names a column."""
    return _announce_a_secret(_words(option))


def _words(name: str) -> str:
    return " ".join(_WORD.findall(name)).lower()


def _announce_a_secret(words: str) -> bool:
    return any(map(_SECRET_WORD.fullmatch, words.split())) or _SECRET_WORDS.search(words) is not None


def secrets_in(variables: Mapping[str, str]) -> frozenset[str]:
    """Values of an environment's secret variables.

    A name may mislead, so short values and paths of existing files do not count.
    """
    return frozenset(value for name, value in variables.items() if is_secret_name(name) and _looks_like_a_secret(value))


def _looks_like_a_secret(value: str) -> bool:
    return len(value) >= _SHORTEST_PART and not (os.path.isabs(value) and _exists(value))


def _exists(path: str) -> bool:
    try:
        return os.path.exists(path)
    except ValueError:  # it contains a NUL
        return False


def password_of(url: str) -> str | None:
    """Password in a URL, for instance of a database; None if there is none."""
    found = _PASSWORD_OF_URL.match(url)
    return unquote(found[1]) if found else None


@dataclass(frozen=True, slots=True)
class Mask:
    """The secret values known in this process. `hide` removes them from a text to be written."""

    values: frozenset[str] = frozenset()

    def hide(self, text: str) -> str:
        """Remove the secrets from a text. If colours split one, which a terminal would show whole, they go as well."""
        hidden = self._hide(text)
        if "\x1b" in hidden:
            shown = without_escape_sequences(hidden)
            if (hidden_as_shown := self._hide(shown)) != shown:
                return hidden_as_shown
        return hidden

    def _hide(self, text: str) -> str:
        for anchor, forms in _forms(self.values):
            if anchor in text:
                for form in forms:
                    text = text.replace(form, HIDDEN)
        if "://" in text or ":\\/\\/" in text:
            text = _URL_TOKEN.sub(HIDDEN, text)
            text = _URL_CREDENTIALS.sub(rf"\1:{HIDDEN}@", text)
        if "%2F%2F" in text or "%2f%2f" in text:
            text = _QUOTED_URL_CREDENTIALS.sub(rf"\1{HIDDEN}", text)
        if "=" in text:
            text = _ASSIGNMENT.sub(_without_assigned, _URL_PARAMETER.sub(_without_secret, text))
        return text

    def hide_lines(self, lines: Iterable[str]) -> list[str]:
        """Mask the lines of a text; a secret may span several lines."""
        return self.hide("\n".join(lines)).splitlines()

    def also(self, values: Iterable[str]) -> Mask:
        return Mask(self.values | frozenset(values))


def without_escape_sequences(text: str) -> str:
    """Remove colours and other escape sequences of terminals."""
    return _ESCAPE_SEQUENCE.sub("", text)


def masked(value: Any, mask: Mask) -> Any:
    """Mask every text in a value, and every number that is a whole secret."""
    if isinstance(value, str):
        return mask.hide(value)
    if isinstance(value, dict):
        return {mask.hide(str(key)): masked(item, mask) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [masked(item, mask) for item in value]
    if isinstance(value, int | float) and len(text := str(value)) >= _SHORTEST_PART and text in mask.values:
        return HIDDEN
    return value


def without_secret_literals(source: str) -> str:
    """Hide the texts that source code gives to names of secrets."""
    return _LITERAL.sub(_without_literal, source)


def _without_literal(found: re.Match[str]) -> str:
    name, between, quotes, _ = found.groups()
    return f"{name}{between}{quotes}{HIDDEN}{quotes}" if is_secret_option(name) else found[0]


def _without_secret(parameter: re.Match[str]) -> str:
    name = unquote(parameter[2])
    is_secret = is_secret_name(name) or name.lower().endswith(("sig", "signature"))
    return f"{parameter[1]}{parameter[2]}={HIDDEN}" if is_secret else parameter[0]


def _without_assigned(found: re.Match[str]) -> str:
    is_secret = is_secret_option(found[1]) and found[2].lower() not in _NO_SECRETS
    return f"{found[1]}={HIDDEN}" if is_secret else found[0]


@functools.lru_cache(maxsize=64)
def _forms(values: frozenset[str]) -> tuple[tuple[str, tuple[str, ...]], ...]:
    """All written forms of each secret, with a part common to all its forms; longest secrets first."""
    parts = {part for value in values for part in _parts(value)}
    return tuple((_anchor(part), _written(part)) for part in sorted(parts, key=_longest_first))


def _longest_first(text: str) -> tuple[int, str]:
    return -len(text), text


def _anchor(secret: str) -> str:
    """Longest run of characters that no quoting changes. Large texts are searched for it first."""
    return max(_UNCHANGED.findall(secret), key=len, default="")


def _parts(value: str) -> Iterator[str]:
    """Yield the secret and the parts that may appear alone: its lines, and the password and path of a URL."""
    if len(value) < SHORTEST_SECRET or value.lower() in _NO_SECRETS:
        return
    value = value.strip() or value
    yield value
    lines = value.splitlines()
    yield "\n".join(lines)
    path = value.partition("://")[2].partition("/")[2]
    long_parts = (*(line.strip() for line in lines if len(lines) > 1), path, path.rpartition("/")[2])
    yield from (part for part in long_parts if len(part) >= _SHORTEST_PART)
    password = password_of(value)
    if password and len(password) >= SHORTEST_SECRET:
        yield password


def _written(secret: str) -> tuple[str, ...]:
    """All quoted forms of a secret: quoted once, or twice as in JSON that contains a command line."""
    once = set(_quoted(secret))
    twice = {form for text in once for form in _quoted(text)}
    return tuple(sorted({secret, *once, *twice}, key=_longest_first))


def _quoted(text: str) -> Iterator[str]:
    """Yield the text as quoted by a shell, JSON, Python, URLs and HTML, and as decoded if it is not UTF-8."""
    as_bytes = text.encode("utf-8", "surrogateescape" if _is_escaped(text) else "surrogatepass")
    yield as_bytes.decode("utf-8", "replace")
    yield from (text.replace("'", "'\"'\"'"), text.replace("'", "'\\''"))
    yield from (json.dumps(text)[1:-1], json.dumps(text, ensure_ascii=False)[1:-1])
    for written in (repr(text)[1:-1], ascii(text)[1:-1], repr(as_bytes)[2:-1], text.encode("unicode_escape").decode()):
        yield written
        yield written.replace("\\'", "'").replace("'", "\\'")
    for in_url in (quote(as_bytes, safe=""), quote(as_bytes), quote_plus(as_bytes), quote(as_bytes, safe="!'()*/~")):
        yield in_url
        yield re.sub("%[0-9A-F]{2}", lambda code: code[0].lower(), in_url)
    yield from (html.escape(text), html.escape(text, quote=False), html.escape(text).replace("&#x27;", "&#39;"))


def _is_escaped(text: str) -> bool:
    try:
        text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        return False
    return True
