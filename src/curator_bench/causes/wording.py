"""Words what changed between two runs: as lines of text, as Markdown, and as a document for JSON."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from typing import Any

from curator_bench.causes.what_changed import CommitRange, Difference, Kind, WhatChanged
from curator_bench.words import code_block, markdown_cell, printable

Log = Callable[[str, str, str], Sequence[str] | None]
"""Returns a line per commit, the newest first; None if no repository here has them.

Its arguments are the package under test ("" for the repository) and the commits before and after.
"""
_COMMITS_SHOWN = 20
_NAMES_SHOWN = 20
_CODE_SHOWN = 40
_VALUE_SHOWN = 60
_HASH = 12
_COMMIT = re.compile("[0-9a-f]{7,64}")


def no_log(of: str, before: str, after: str) -> None:
    """Return no commits, for use without a repository."""


def text(changed: WhatChanged, log: Log = no_log) -> list[str]:
    """Word what changed, one line per fact. Lines below another one are indented by two blanks."""
    lines = [line for head, inner in _blocks(changed, log) for line in (head, *(f"  {line}" for line in inner))]
    return [printable(line) for line in lines]


def markdown(changed: WhatChanged, log: Log = no_log) -> list[str]:
    """Word what changed as a list of Markdown, one line per item."""
    lines = []
    for head, inner in _blocks(changed, log):
        lines.append(f"- {markdown_cell(head)}")
        lines += [f"    - {markdown_cell(line)}" for line in inner if head != _CODE]
        if head == _CODE:
            lines += ["", *(f"  {line}" for line in code_block(inner, "diff")), ""]
    return lines


def document(changed: WhatChanged) -> dict[str, Any]:
    """Return what changed for JSON."""
    commits = [
        {"of": one.of or None, "before": one.before, "after": one.after, "uncommitted": one.changed}
        for one in changed.commits
    ]
    differences = [
        {"kind": str(one.kind), "name": one.name, "before": one.before, "after": one.after}
        for one in changed.differences
    ]
    return {
        "commits": commits,
        "differences": differences,
        "code": list(changed.code),
        "same": [str(kind) for kind in changed.same],
        "not_recorded": [str(kind) for kind in changed.unknown],
    }


_CODE = "code:"


def _blocks(changed: WhatChanged, log: Log) -> Iterator[tuple[str, Sequence[str]]]:
    """Yield each fact with the lines that belong below it."""
    for one in changed.commits:
        yield _range(one), list(_commits(one, log))
    for kind in Kind:
        found = [one for one in changed.differences if one.kind == kind]
        if found:
            names = ", ".join(_difference(one) for one in found[:_NAMES_SHOWN])
            yield f"{kind}: {names}{_more(len(found), _NAMES_SHOWN)}", ()
        if kind == Kind.DEFINITION and changed.code:
            yield _CODE, [*changed.code[:_CODE_SHOWN], *filter(None, [_more(len(changed.code), _CODE_SHOWN).strip()])]
    if changed.is_nothing:
        yield f"nothing that was recorded changed: {_listed(changed.same)} are the same", ()
    if changed.unknown:
        yield f"not recorded, so not compared: {_listed(changed.unknown)}", ()


def _range(one: CommitRange) -> str:
    name = one.of or "commits"
    if one.before == one.after:
        return f"{name} {_short(one.after)} with changes that are not committed"
    beside = ", with changes that are not committed" if one.changed else ""
    between = ".." if _is_commit(one.before) and _is_commit(one.after) else " → "
    return f"{name} {_short(one.before)}{between}{_short(one.after)}{beside}"


def _commits(one: CommitRange, log: Log) -> Iterator[str]:
    are_known = one.before != one.after and _is_commit(one.before) and _is_commit(one.after)
    lines = log(one.of, one.before, one.after) if are_known else None
    yield from islice(lines or (), _COMMITS_SHOWN)
    if lines and len(lines) > _COMMITS_SHOWN:
        yield _more(len(lines), _COMMITS_SHOWN).strip()


def _difference(one: Difference) -> str:
    if one.kind == Kind.ENVIRONMENT:  # its values are hashes
        word = "added" if one.before is None else "removed" if one.after is None else "changed"
        return f"{one.name} {word}"
    if one.before is None:
        return f"{one.name} added ({_value(one.after)})"
    if one.after is None:
        return f"{one.name} removed ({_value(one.before)})"
    return f"{one.name} {_value(one.before)} → {_value(one.after)}"


def _value(value: str | None) -> str:
    shown = " ".join((value or "").split())
    return f"{shown[:_VALUE_SHOWN]}…" if len(shown) > _VALUE_SHOWN else shown


def _more(count: int, shown: int) -> str:
    return f" … and {count - shown} more" if count > shown else ""


def _listed(kinds: Sequence[Kind]) -> str:
    return ", ".join(map(str, kinds)) or "nothing"


def _is_commit(text: str) -> bool:
    return _COMMIT.fullmatch(text) is not None


def _short(text: str) -> str:
    return text[:_HASH] if _is_commit(text) else text
