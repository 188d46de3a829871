"""The meaning of a user's name for a session or a commit: a recorded name, else one that git in this folder knows."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from curator_bench.errors import BenchError

if TYPE_CHECKING:
    from sqlalchemy import Connection

    from curator_bench.store.past_sessions import PastSession

_Found = TypeVar("_Found")
_HASH = 8


def found_by_name(connection: Connection, named: str, find: Callable[[str], _Found]) -> _Found:
    """Return what `find` finds by this name; if nothing is recorded under it, by the commit that git here calls so.

    Raises BenchError that names the nearest commits that were measured.
    """
    from curator_bench.provenance.git import commit_called
    from curator_bench.store.queries import NotRecorded

    try:
        return find(named)
    except NotRecorded:
        if (commit := commit_called(Path(), named)) is None:
            raise
    try:
        return find(commit)
    except NotRecorded:
        raise BenchError(_not_measured(connection, named, commit)) from None


def _not_measured(connection: Connection, named: str, commit: str) -> str:
    from curator_bench.provenance.git import commits_around
    from curator_bench.store.past_sessions import measured_commits

    known = measured_commits(connection)
    sides = zip(commits_around(Path(), commit), ("before", "after"), strict=True)
    near = [text for commits, side in sides if (text := _nearest(commits, known, side))]
    called = "" if commit.startswith(named) else f" ({commit[:_HASH]})"
    advice = f"the nearest that were: {', '.join(near)}" if near else "`curator-bench sessions` lists what was measured"
    return f"nothing was measured at {named}{called}; {advice}"


def _nearest(commits: Sequence[str], known: set[str], side: str) -> str:
    found = next(((number, one) for number, one in enumerate(commits, 1) if one in known), None)
    return f"{found[1][:_HASH]} ({found[0]} commit{'s' if found[0] > 1 else ''} {side})" if found else ""


def sessions_named(connection: Connection, named: str) -> list[int]:
    """Return the ids of the sessions with this name, branch, uid or commit, or of the commit that git calls so."""
    from curator_bench.store.measured import sessions_meant

    return found_by_name(connection, named, lambda name: sessions_meant(connection, name))


def past_sessions(
    connection: Connection, named: str | None, gone: Mapping[int, str] | None = None
) -> list[PastSession]:
    """Return the sessions with this name, uid or commit, newest last; without a name, the newest session."""
    from curator_bench.store.past_sessions import find_sessions

    if named is None:
        return find_sessions(connection, None, gone or {})
    return found_by_name(connection, named, lambda name: find_sessions(connection, name, gone or {}))


def moment_of(connection: Connection, since: datetime | str | None) -> datetime | None:
    """Return the moment that `--since` means: of a commit or a session, the start of its first run."""
    from curator_bench.store.past_sessions import first_start
    from curator_bench.store.queries import NotRecorded

    if not isinstance(since, str):
        return since
    try:
        return first_start(connection, sessions_named(connection, since))
    except NotRecorded as error:
        expected = "expected a day (2026-01-23), a time, days (30d), or a commit or a session that is recorded"
        raise BenchError(f"--since: found {since!r}, {expected}") from error
