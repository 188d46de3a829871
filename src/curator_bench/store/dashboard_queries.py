"""Queries of the dashboard: subjects, invocations, missed requirements and links of many sessions at once."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import fields
from typing import Any

from sqlalchemy import Connection, or_, select

from curator_bench.store.backgrounds import Backgrounds
from curator_bench.store.past_sessions import PastSession
from curator_bench.store.queries import MISSED_COLUMNS, MissedRequirement
from curator_bench.store.records import InvocationRecord
from curator_bench.store.tables import INVOCATIONS, PARAMS, REQUIREMENTS, RUNS, SESSIONS, SUBJECTS
from curator_bench.values import Subject

_LINKS = {"CI run": "ci_run_url", "cluster": "cluster_details_url", "performance report": "performance_report_url"}


def subjects_by_session(connection: Connection, sessions: Sequence[PastSession]) -> dict[int, list[Subject]]:
    """Packages under test, by session id."""
    names = [column.name for column in fields(Subject)]
    statement = select(SUBJECTS.c.session, *(SUBJECTS.c[name] for name in names)).order_by(SUBJECTS.c.id)
    found: dict[int, list[Subject]] = defaultdict(list)
    for session, *values in connection.execute(statement.where(SUBJECTS.c.session.in_(_numbers(sessions)))):
        found[session].append(Subject(*values))
    return found


def subjects_by_uid(connection: Connection) -> dict[str, list[Subject]]:
    """Packages under test of all sessions, by uid of the session."""
    columns = (SUBJECTS.c[column.name] for column in fields(Subject))
    statement = select(SESSIONS.c.uid, *columns).join(SESSIONS, SESSIONS.c.id == SUBJECTS.c.session)
    found: dict[str, list[Subject]] = defaultdict(list)
    for uid, *values in connection.execute(statement.order_by(SUBJECTS.c.id)):
        found[uid].append(Subject(*values))
    return found


def circumstances_by_session(
    connection: Connection, sessions: Sequence[PastSession], kinds: Collection[str]
) -> dict[int, dict[str, dict[str, str]]]:
    """Read the background of sessions, by session id and kind: packages, environment, configuration."""
    backgrounds = Backgrounds(connection)
    named = select(RUNS.c.session, RUNS.c.circumstances).where(RUNS.c.circumstances.is_not(None)).distinct()
    found: dict[int, dict[str, dict[str, str]]] = defaultdict(lambda: {kind: {} for kind in kinds})
    for session, circumstances in connection.execute(named.where(RUNS.c.session.in_(_numbers(sessions)))):
        facts = backgrounds.of(None, circumstances).circumstances
        for kind in kinds:
            found[session][kind] |= {str(name): str(value) for name, value in facts.get(kind, {}).items()}
    return found


def parameters_of_session(connection: Connection, session: int) -> dict[str, dict[str, str]]:
    """Parameters of the runs of a session as their scripts wrote them, by uid of the run."""
    statement = select(RUNS.c.uid, PARAMS.c.name, PARAMS.c.value).join(RUNS, RUNS.c.id == PARAMS.c.run)
    found: dict[str, dict[str, str]] = defaultdict(dict)
    for uid, name, value in connection.execute(statement.where(RUNS.c.session == session)):
        found[uid][name] = str(value)
    return found


def invocations_by_session(
    connection: Connection, sessions: Sequence[PastSession]
) -> dict[int, list[InvocationRecord]]:
    """Invocations by session id, oldest first."""
    names = [column.name for column in fields(InvocationRecord)]
    statement = select(INVOCATIONS.c.session, *(INVOCATIONS.c[name] for name in names)).order_by(INVOCATIONS.c.start)
    found: dict[int, list[InvocationRecord]] = defaultdict(list)
    for session, *values in connection.execute(statement.where(INVOCATIONS.c.session.in_(_numbers(sessions)))):
        found[session].append(InvocationRecord(*values))
    return found


def missed_by_run(connection: Connection, uids: Collection[str]) -> dict[str, list[MissedRequirement]]:
    """Requirements these runs did not meet and their inconclusive gates, by uid of the run."""
    missed = (
        select(RUNS.c.uid, *(REQUIREMENTS.c[name] for name in MISSED_COLUMNS))
        .join(RUNS, RUNS.c.id == REQUIREMENTS.c.run)
        .where(RUNS.c.uid.in_(uids), REQUIREMENTS.c.met.is_not(True))
        .order_by(REQUIREMENTS.c.run, REQUIREMENTS.c.position)
    )
    found: dict[str, list[MissedRequirement]] = defaultdict(list)
    for row in connection.execute(missed):
        found[row.uid].append(MissedRequirement(*row))
    return found


def links_by_run(connection: Connection, uids: Collection[str]) -> dict[str, Mapping[str, Any]]:
    """Links to pages about each of these runs, by uid of the run and by name of the link."""
    columns = [RUNS.c[name] for name in (*_LINKS.values(), "sink_urls")]
    statement = select(RUNS.c.uid, *columns)
    statement = statement.where(RUNS.c.uid.in_(uids), or_(*(column.is_not(None) for column in columns)))
    found: dict[str, Mapping[str, Any]] = {}
    for row in connection.execute(statement):
        sinks = row.sink_urls
        own = {name: url for name, column in _LINKS.items() if (url := getattr(row, column))}
        found[row.uid] = {**own, **(sinks if isinstance(sinks, dict) else {})}
    return found


def _numbers(sessions: Sequence[PastSession]) -> list[int]:
    return [session.id for session in sessions]
