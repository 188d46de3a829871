"""`{…}` in the words of a command line: find the placeholders and fill them in."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from difflib import get_close_matches

from curator_bench.matrix.variables import PATTERN, Variables

# `{{name}}` is a literal {name}. A brace outside these patterns is literal too, as in JSON.
_PLACEHOLDER = re.compile(
    PATTERN
    + r"|\{\{(?P<literal>[A-Za-z_][\w.-]*)\}\}"
    + r"|\{dataset:(?P<dataset>[^{},]+),(?P<format>[^{},]+)\}"
    + r"|\{(?P<name>[A-Za-z_][\w-]*(?:\.[\w-]+)*)\}"
)
_DATASET_BY_AXIS = re.compile(r"\{dataset:[^{}]*(?:\{[\w.-]*\}[^{}]*)+\}")
_UNFINISHED_DATASET = re.compile(rf"(?<!\{{)(?:\{{dataset:[^{{}},]*\}}|{_DATASET_BY_AXIS.pattern})")
NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*\Z")
"""Valid name of an axis or a path, so that `{NAME}` is a placeholder."""

ENTRY_DIR = "session_entry_dir"
OLD_ENTRY_DIR = "session"
REPO_DIR = "curator_repo_dir"
DATASET_DIR = "dataset_dir"
RESERVED = frozenset([ENTRY_DIR, OLD_ENTRY_DIR, REPO_DIR, DATASET_DIR, "dataset"])
_MOST_CANDIDATES = 200

Dataset = tuple[str, str]


def _matches_in(text: str) -> Iterator[re.Match[str]]:
    """Yield every placeholder of a text, including those in defaults of variables."""
    if "{" not in text:
        return
    for match in _PLACEHOLDER.finditer(text):
        if match["default"]:
            yield from _matches_in(match["default"])
        else:
            yield match


def raw_datasets_in(text: str) -> Iterator[Dataset]:
    """Yield the datasets a text names, as (name, format), with their blanks."""
    for match in _matches_in(text):
        if match["dataset"] is not None:
            yield match["dataset"], match["format"]


def fill_in_datasets(text: str, names: Mapping[str, str]) -> str:
    """Fill in the axes that choose a dataset or its format: `{dataset:cc,{format}}`."""
    return _DATASET_BY_AXIS.sub(lambda match: "{dataset:" + fill(match[0][len("{dataset:") :], names=names), text)


def datasets_in(text: str) -> Iterator[Dataset]:
    """Yield the datasets a text names, as (name, format)."""
    for name, form in raw_datasets_in(text):
        yield name.strip(), form.strip()


def unfinished_datasets_in(text: str) -> Iterator[str]:
    """Yield datasets without a format: `{dataset:NAME}`."""
    for match in _UNFINISHED_DATASET.finditer(text):
        yield match[0]


def names_in(text: str) -> Iterator[str]:
    """Yield the names of all placeholders that are not datasets."""
    for match in _matches_in(text):
        if match["name"] is not None:
            yield match["name"]


def fill(
    text: str,
    *,
    names: Mapping[str, str],
    dataset: Callable[[Dataset], str | None] = lambda _: None,
    variables: Variables | None = None,
) -> str:
    """Fill in everything that is known; unknown placeholders stay as they are.

    Placeholders inside the inserted values are not filled in.
    """
    if "{" not in text:
        return text

    def value(match: re.Match[str]) -> str:
        if match["name"] is not None:
            return names.get(match["name"], match[0])
        if match["dataset"] is not None:
            return dataset((match["dataset"].strip(), match["format"].strip())) or match[0]
        if match["literal"] is not None:
            return "{" + match["literal"] + "}"
        return match[0] if variables is None else variable(match, variables)

    def variable(match: re.Match[str], known: Variables) -> str:
        if match["variable"] is None:
            return "${"
        found = known.lookup(match["variable"])
        if found is None and match["default"] is not None:
            return _PLACEHOLDER.sub(value, match["default"][2:])
        return match[0] if found is None else found

    return _PLACEHOLDER.sub(value, text)


def fill_entry_dir(text: str, directory: str) -> str:
    """Fill in the entry's directory, which is known only when a repeat starts.

    Doubled braces have become single ones before.
    """
    return text.replace("{" + ENTRY_DIR + "}", directory).replace("{" + OLD_ENTRY_DIR + "}", directory)


def nearest(name: str, known: Iterable[str]) -> str:
    """Text for a message: `; did you mean 'x'?`, or the known names if none is near."""
    names = sorted(set(known))
    close = get_close_matches(name, _candidates(name, names), n=1, cutoff=0.6)
    if close:
        return f"; did you mean {close[0]!r}?"
    if not names:
        return "; there are none"
    shown = [known if len(known) <= 60 else known[:57] + "..." for known in names[:12]]
    return f"; known: {', '.join(shown)}{', …' if len(names) > 12 else ''}"


def _candidates(name: str, names: list[str]) -> list[str]:
    """Names worth comparing.

    Comparing is slow, so with thousands of names only those with the same beginning are compared.
    """
    if len(names) <= _MOST_CANDIDATES:
        return names
    return [known for known in names if known[:1] == name[:1]][:_MOST_CANDIDATES]
