"""Write the rows of a session, an invocation and a run, within a transaction of the caller."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from datetime import datetime
from typing import Any, NamedTuple

from sqlalchemy import Connection, Table, bindparam, delete, insert, select, update

from curator_bench.store import profiles, stages
from curator_bench.store.column_types import key
from curator_bench.store.entry_axes import AXES
from curator_bench.store.records import (
    Background,
    DefinitionRecord,
    InvocationRecord,
    RunEnd,
    RunStart,
    SessionRecord,
    StoredRun,
    fact_uid,
)
from curator_bench.store.running import RUNNING
from curator_bench.store.scalars import text_of, value_and_text
from curator_bench.store.tables import (
    DEFINITIONS,
    FACTS,
    INVOCATIONS,
    METRICS,
    PARAMS,
    PARTS,
    PROFILES,
    REQUIREMENTS,
    RUNS,
    SAMPLES,
    SESSIONS,
    STAGES,
    SUBJECTS,
)
from curator_bench.values import Subject, Verdict

SOURCES = "sources"
"""Key of a definition's content: uids of the texts of its scripts, by name."""
_INSERT_RUN = insert(RUNS)
_BY_ID = RUNS.c.id == bindparam("the_id")
_FINISH = update(RUNS).where(_BY_ID, RUNS.c.uid == bindparam("the_uid"), RUNS.c.verdict == RUNNING)
_REWRITE = update(RUNS).where(_BY_ID)
_FIND = select(RUNS.c.id, RUNS.c.verdict).where(RUNS.c.uid == bindparam("the_uid"))
_OPEN = (RUNNING, str(Verdict.INTERRUPTED))


class Place(NamedTuple):
    """Row ids of the session and the invocation a run belongs to."""

    session: int
    invocation: int | None


def join_session(connection: Connection, record: SessionRecord) -> int:
    """Find or create the session's row, and add the subjects that are new."""
    values = {name: value for name, value in asdict(record).items() if name != "subjects"}
    session = _join(connection, SESSIONS, values)
    if record.commit_depth is not None:
        _forget_place_of_another(connection, session, record.commit)
    if record.subjects:
        connection.execute(select(SESSIONS.c.id).where(SESSIONS.c.id == session).with_for_update())  # one at a time
        for subject in record.subjects:
            _note_subject(connection, session, subject)
    return session


def _forget_place_of_another(connection: Connection, session: int, commit: str | None) -> None:
    """Forget the place of the session's commit if it is joined at another one: time then orders its runs."""
    _of_another = (SESSIONS.c.id == session, SESSIONS.c.commit.is_distinct_from(commit))
    connection.execute(
        update(SESSIONS).where(*_of_another, SESSIONS.c.commit_depth.is_not(None)).values(commit_depth=None)
    )


def join_invocation(connection: Connection, session: int, record: InvocationRecord) -> int:
    """Find or create the invocation's row."""
    values = {name: getattr(record, name) for name in InvocationRecord.__slots__}
    return _join(connection, INVOCATIONS, {**values, "session": session})


def end_invocation(connection: Connection, place: Place, end: datetime, exit_status: int) -> int | None:
    values = {"end": end, "exit_status": exit_status}
    connection.execute(update(INVOCATIONS).where(INVOCATIONS.c.id == place.invocation), values)
    return place.invocation


def note_links(connection: Connection, place: Place, links: Mapping[str, Mapping[str, str]]) -> int:
    """Add links; those of other invocations' sinks stay."""
    for uid, urls in links.items():
        table, which = (RUNS, RUNS.c.uid == uid) if uid else (SESSIONS, SESSIONS.c.id == place.session)
        known = connection.scalar(select(table.c.sink_urls).where(which)) or {}
        connection.execute(update(table).where(which), {"sink_urls": {**known, **urls}})
    return place.session


def add_start(connection: Connection, place: Place, start: RunStart) -> int:
    """Insert the row of a starting run; return its id."""
    made = connection.execute(_INSERT_RUN, {**_of_start(place, start), "verdict": RUNNING, "heartbeat_at": start.start})
    assert made.inserted_primary_key is not None
    return int(made.inserted_primary_key[0])


def add_background(connection: Connection, background: Background, recorded: Collection[str] = ()) -> set[str]:
    """Add the definition and the facts that are not recorded yet, and return their uids.

    `recorded` are uids that are known to be there.
    """
    facts = {uid: content for uid, content in background.facts.items() if uid not in recorded}
    _insert_unless_there(connection, FACTS, [{"uid": uid, "content": content} for uid, content in facts.items()])
    definition = background.definition
    if definition is None or definition.uid in recorded:
        return set(facts)
    _insert_unless_there(connection, DEFINITIONS, [_definition_values(definition)])
    if AXES in definition.content:
        _add_axes(connection, definition.uid, definition.content[AXES])
    return {*facts, definition.uid}


def _add_axes(connection: Connection, uid: str, axes: Any) -> None:
    """Add the values of axes to a definition that an older release recorded."""
    content = connection.scalar(select(DEFINITIONS.c.content).where(DEFINITIONS.c.uid == uid)) or {}
    if content.get(AXES) != axes:
        changed = update(DEFINITIONS).where(DEFINITIONS.c.uid == uid)
        connection.execute(changed.values(content={**content, AXES: axes}))


def _definition_values(definition: DefinitionRecord) -> dict[str, Any]:
    """Values of a definition's row. Its scripts are facts."""
    sources = {name: fact_uid(text) for name, text in definition.sources.items()}
    hashes = {name: getattr(definition, name) for name in ("uid", "series_hash", "content_hash")}
    return {**hashes, "content": {**definition.content, SOURCES: sources}}


def complete(connection: Connection, place: Place, start: RunStart, end: RunEnd, run: int | None) -> int:
    """Complete the row of an ended run and add its parts; return its id.

    `run` is the row's id, if the caller knows it.
    """
    if run is not None:
        values = {"the_id": run, "the_uid": start.uid, **_of_end(start, end)}
        if connection.execute(_FINISH, values).rowcount == 1:
            _add_parts(connection, run, end)
            return run
    return _overwrite(connection, place, start, end)


def add_or_complete(connection: Connection, place: Place, record: StoredRun) -> bool:
    """Add a run from a file, or complete its row. False if nothing was missing."""
    found = connection.execute(_FIND, {"the_uid": record.start.uid}).first()
    if found is not None and (found.verdict not in _OPEN or record.end.verdict == found.verdict):
        return False
    add_background(connection, record.background)
    _overwrite(connection, place, record.start, record.end)
    return True


def beat(connection: Connection, uids: Iterable[str], now: datetime) -> None:
    """Refresh the heartbeat of running runs."""
    still = update(RUNS).where(RUNS.c.uid.in_(list(uids)), RUNS.c.verdict == RUNNING)
    connection.execute(still, {"heartbeat_at": now})


def verdicts_of(connection: Connection, uids: Collection[str]) -> dict[str, str]:
    """Read the verdicts of these runs, as far as they are there."""
    found = (connection.execute(_FIND, {"the_uid": uid}).first() for uid in uids)
    return {uid: row.verdict for uid, row in zip(uids, found, strict=True) if row is not None}


def note_teardown(connection: Connection, uid: str, outcome: str) -> None:
    """Write the teardown's outcome, which is known only after the run was recorded."""
    connection.execute(update(RUNS).where(RUNS.c.uid == uid), {"teardown_outcome": outcome})


def _join(connection: Connection, table: Table, values: Mapping[str, Any]) -> int:
    find = select(table.c.id).where(table.c.uid == values["uid"])
    found = connection.scalar(find)
    if found is None:
        _insert_unless_there(connection, table, [values])
        found = connection.scalar(find)
    assert found is not None
    return int(found)


def _insert_unless_there(connection: Connection, table: Table, values: Sequence[Mapping[str, Any]]) -> None:
    """Insert each row unless its uid exists.

    Both dialects have the same call in different modules; importing the unused one would cost 20 ms.
    """
    if not values:
        return
    if connection.dialect.name == "postgresql":
        from sqlalchemy.dialects import postgresql

        connection.execute(postgresql.insert(table).on_conflict_do_nothing(), list(values))
    else:
        from sqlalchemy.dialects import sqlite

        connection.execute(sqlite.insert(table).on_conflict_do_nothing(), list(values))


def _note_subject(connection: Connection, session: int, subject: Subject) -> None:
    values = {"session": session, **asdict(subject)}
    same = (SUBJECTS.c[name].is_not_distinct_from(value) for name, value in values.items())
    if connection.execute(select(SUBJECTS.c.id).where(*same)).first() is None:
        connection.execute(insert(SUBJECTS), values)


def _overwrite(connection: Connection, place: Place, start: RunStart, end: RunEnd) -> int:
    """Write the whole row, for a run whose start was not recorded or that was already marked ended."""
    found = connection.execute(_FIND, {"the_uid": start.uid}).first()
    values = values_of(place, start, end)
    if found is None:
        made = connection.execute(_INSERT_RUN, values)
        assert made.inserted_primary_key is not None
        run = int(made.inserted_primary_key[0])
    else:
        run = int(found.id)
        connection.execute(_REWRITE, {"the_id": run, **values})
        for parts in PARTS:
            connection.execute(delete(parts).where(parts.c.run == run))
    _add_parts(connection, run, end)
    return run


def values_of(place: Place, start: RunStart, end: RunEnd) -> dict[str, Any]:
    """Values of an ended run's row, without its parts."""
    return {**_of_start(place, start), **_of_end(start, end)}


def parts_of(run: int, end: RunEnd) -> Iterator[tuple[Table, list[dict[str, Any]]]]:
    """Yield the parts of a run, by table."""
    yield METRICS, _metric_rows(run, end)
    yield SAMPLES, _sample_rows(run, end)
    yield PARAMS, _param_rows(run, end)
    yield REQUIREMENTS, _requirement_rows(run, end)
    yield STAGES, stages.rows_of(run, end.stages)
    yield PROFILES, profiles.rows_of(run, end.profiles)


def _of_start(place: Place, start: RunStart) -> dict[str, Any]:
    values = {name: getattr(start, name) for name in RunStart.__slots__}
    values["originalname"] = start.originalname or start.name
    return {**values, "session": place.session, "invocation": place.invocation}


_SAID_TWICE = ("node", "gpu", "command", "log_path")
_OF_END = (
    "verdict",
    "end",
    "duration",
    "setup_outcome",
    "call_outcome",
    "teardown_outcome",
    "exit_code",
    "error",
    "disturbed",
)


def _of_end(start: RunStart, end: RunEnd) -> dict[str, Any]:
    values = {name: getattr(end, name) for name in _OF_END} | asdict(end.figures)
    values["verdict"] = str(end.verdict)
    values["heartbeat_at"] = end.end
    for name in _SAID_TWICE:
        said = getattr(end, name)
        values[name] = getattr(start, name) if said is None else said
    return values


def _add_parts(connection: Connection, run: int, end: RunEnd) -> None:
    for table, rows in parts_of(run, end):
        if rows:
            connection.execute(insert(table), rows)


def _metric_rows(run: int, end: RunEnd) -> list[dict[str, Any]]:
    # Two names with the same key are one metric: they differ only in characters that a key cannot hold.
    stored = {key(name): value_and_text(scalar) for name, scalar in end.metrics.items()}
    return [{"run": run, "name": name, "value": value, "text": text} for name, (value, text) in stored.items()]


def _sample_rows(run: int, end: RunEnd) -> list[dict[str, Any]]:
    if len(end.repeats) < 2:
        return [
            {"run": run, "repeat": number, "metric": key(name), "value": value}
            for name, values in end.samples.items()
            for number, value in enumerate(values, 1)
        ]
    stored = {
        (repeat.index, key(name)): value_and_text(scalar)[0]
        for repeat in end.repeats
        for name, scalar in repeat.metrics.items()
        if not isinstance(scalar, str)
    }
    return [{"run": run, "repeat": index, "metric": name, "value": value} for (index, name), value in stored.items()]


def _param_rows(run: int, end: RunEnd) -> list[dict[str, Any]]:
    stored = {key(name): text_of(value) for name, value in end.params.items()}
    return [{"run": run, "name": name, "value": text} for name, text in stored.items()]


def _requirement_rows(run: int, end: RunEnd) -> list[dict[str, Any]]:
    return [
        {
            "run": run,
            "position": position,
            "metric": check.metric,
            "bound": check.bound,
            "limit": text_of(check.limit),
            "actual": text_of(check.actual),
            "met": check.met,
            "better": check.better,
            "note": check.note or None,
        }
        for position, check in enumerate(end.checks)
    ]
