"""Finds what changed between two runs: a pure function of the recorded facts of both.

To show it, read the facts of both runs with `causes.recorded.facts_of`, compare them, and render the result:

    facts = facts_of(connection, [before, after])             # ids of rows of test_run
    changed = what_changed(facts[before], facts[after])
    lines = wording.text(changed, log)                        # or wording.markdown, or wording.document for JSON
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

Values = Mapping[str, str]


class Kind(StrEnum):
    """A kind of facts, in the order in which they are shown."""

    COMMITS = "commits"
    DEFINITION = "definition"
    PARAMETERS = "parameters"
    PACKAGES = "packages"
    CONFIGURATION = "configuration"
    MACHINE = "machine"
    ENVIRONMENT = "environment"


@dataclass(frozen=True, slots=True)
class Facts:
    """The circumstances of a run. None stands for what was not recorded."""

    commits: Values | None = None
    """Commit, or version without one, of the repository (named "") and of each package under test."""
    changed: frozenset[str] = frozenset()
    """Names among `commits` whose tracked files differ from the commit."""
    definition: Values | None = None
    """Parts of the definition: arguments, datasets, Ray's settings, variables."""
    sources: Values = field(default_factory=dict)
    """Text of each script of the definition."""
    content_hash: str | None = None
    """Equal hashes mean equal definitions, apart from comments and formatting."""
    parameters: Values | None = None
    packages: Values | None = None
    configuration: Values | None = None
    machine: Values | None = None
    environment: Values | None = None
    """Hashes of the values of variables, each after its key: `KEY:HASH`."""


@dataclass(frozen=True, slots=True)
class CommitRange:
    """The commits after `before` up to `after`; both may be versions, or equal if files without a commit changed."""

    of: str
    """The package under test; empty for the repository."""
    before: str
    after: str
    changed: bool = False
    """True if one side had changes that were not committed."""


@dataclass(frozen=True, slots=True)
class Difference:
    """One fact that differs. None stands for absent."""

    kind: Kind
    name: str
    before: str | None
    after: str | None


@dataclass(frozen=True, slots=True)
class WhatChanged:
    """All that differs between two runs, and what was compared."""

    commits: tuple[CommitRange, ...] = ()
    differences: tuple[Difference, ...] = ()
    code: tuple[str, ...] = ()
    """Unified diff of the scripts, without line ends. Empty if only comments and formatting differ."""
    same: tuple[Kind, ...] = ()
    """Kinds that were compared and do not differ."""
    unknown: tuple[Kind, ...] = ()
    """Kinds that were not recorded for one of the runs."""

    @property
    def is_nothing(self) -> bool:
        """True if nothing that was recorded differs."""
        return not (self.commits or self.differences or self.code)


def what_changed(before: Facts, after: Facts) -> WhatChanged:
    """Compare what was recorded of two runs."""
    commits = tuple(_commits(before, after))
    code = tuple(_code(before, after))
    packages = {one.of for one in commits}
    differences = tuple(
        one for one in _differences(before, after) if one.kind != Kind.PACKAGES or one.name not in packages
    )
    unknown = tuple(kind for kind in Kind if getattr(before, kind) is None or getattr(after, kind) is None)
    differing = {one.kind for one in differences} | ({Kind.COMMITS} if commits else set())
    differing |= {Kind.DEFINITION} if code else set()
    same = tuple(kind for kind in Kind if kind not in unknown and kind not in differing)
    return WhatChanged(commits, differences, code, same, unknown)


def _commits(before: Facts, after: Facts) -> Iterator[CommitRange]:
    if before.commits is None or after.commits is None:
        return
    for name in sorted(before.commits.keys() & after.commits.keys()):
        is_changed = name in before.changed | after.changed
        if before.commits[name] != after.commits[name] or is_changed:
            yield CommitRange(name, before.commits[name], after.commits[name], is_changed)


def _differences(before: Facts, after: Facts) -> Iterator[Difference]:
    for kind in Kind:
        old, new = getattr(before, kind), getattr(after, kind)
        if kind != Kind.COMMITS and old is not None and new is not None:
            # What is not known of a machine is not absent from it.
            names = old.keys() & new.keys() if kind == Kind.MACHINE else old.keys() | new.keys()
            yield from (
                Difference(kind, name, old.get(name), new.get(name))
                for name in sorted(names)
                if _differs(old.get(name), new.get(name), kind)
            )


def _differs(before: str | None, after: str | None, kind: Kind) -> bool:
    if kind == Kind.ENVIRONMENT and before is not None and after is not None:
        (key, _, value), (other_key, _, other) = before.partition(":"), after.partition(":")
        return key == other_key and value != other  # hashes of different keys cannot be compared
    return before != after


def _code(before: Facts, after: Facts) -> Iterator[str]:
    if before.definition is None or after.definition is None or before.content_hash == after.content_hash:
        return
    for name in sorted(before.sources.keys() | after.sources.keys()):
        old, new = (side.sources.get(name, "").splitlines() for side in (before, after))
        yield from difflib.unified_diff(old, new, f"{name} before", f"{name} after", n=1, lineterm="")


def flat(value: Any, above: str = "") -> dict[str, str]:
    """Flatten nested values to texts by name; inner names follow a dot."""
    if isinstance(value, Mapping):
        return {name: text for key, inner in value.items() for name, text in flat(inner, f"{above}{key}.").items()}
    listed = value if isinstance(value, list | tuple) else [value]
    return {above.rstrip("."): " ".join(map(str, listed))}
