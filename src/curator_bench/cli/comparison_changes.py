"""Prints what changed between the sides of a comparison, for entries that got worse."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from curator_bench.causes import wording
from curator_bench.causes.recorded import facts_of
from curator_bench.causes.what_changed import Facts, WhatChanged, what_changed
from curator_bench.cli.databases import reading
from curator_bench.cli.finding_changes import commit_log
from curator_bench.store.measured import runs_in
from curator_bench.words import markdown_cell, printable

if TYPE_CHECKING:
    from curator_bench.cli.comparison import Compared
    from curator_bench.store.all_series import Group

_NAMED = 5

Changes = dict["Group", WhatChanged]
"""What changed, by entry and machine."""


def changes_between(databases: tuple[str, str], rows: Sequence[Compared]) -> Changes:
    """Compare the last run of A with the first of B, for each entry and machine that got worse.

    The databases are those of A and of B.
    """
    worse = {row.group: row.between for row in rows if row.judgement.says == "regression" and row.between}
    if not worse:
        return {}
    before = _facts(databases[0], {group: between[0] for group, between in worse.items()}, newest=True)
    after = _facts(databases[1], {group: between[1] for group, between in worse.items()}, newest=False)
    return {group: what_changed(before[group], after[group]) for group in worse}


def _facts(database: str, sessions: Mapping[Group, int], *, newest: bool) -> dict[Group, Facts]:
    with reading(database) as opened, opened.reading() as connection:
        runs = runs_in(connection, sessions, newest=newest)
        facts = facts_of(connection, set(runs.values()))
    return {group: facts[run] for group, run in runs.items()}


def text(changes: Changes) -> Iterator[str]:
    """Word what changed, once for all entries that share it."""
    for head, changed in _blocks(changes):
        yield printable(f"what changed ({head}):")
        yield from (f"    {line}" for line in wording.text(changed, commit_log(None)))


def markdown(changes: Changes) -> Iterator[str]:
    for head, changed in _blocks(changes):
        yield from ("", f"**What changed** ({markdown_cell(head)})", "")
        yield from wording.markdown(changed, commit_log(None))


def _blocks(changes: Changes) -> Iterator[tuple[str, WhatChanged]]:
    shared: dict[WhatChanged, dict[str, None]] = {}
    for (name, _, machine), changed in changes.items():
        shared.setdefault(changed, {})[f"{name} on {machine}" if machine else name] = None
    for changed, names in shared.items():
        more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
        yield f"{', '.join(list(names)[:_NAMED])}{more}", changed
