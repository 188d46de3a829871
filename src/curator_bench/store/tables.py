"""The tables of the schema, for SQL statements instead of objects."""

from __future__ import annotations

import sqlalchemy as sa

from curator_bench.store.schema import (
    Acceptance,
    Base,
    BenchSession,
    Definition,
    Fact,
    Invocation,
    Metric,
    Param,
    Profile,
    Requirement,
    Sample,
    Stage,
    Subject,
    TestRun,
)


def _table(model: type[Base]) -> sa.Table:
    return model.metadata.tables[model.__tablename__]


SESSIONS, INVOCATIONS, SUBJECTS, RUNS = map(_table, (BenchSession, Invocation, Subject, TestRun))
METRICS, SAMPLES, PARAMS, REQUIREMENTS, STAGES = map(_table, (Metric, Sample, Param, Requirement, Stage))
PROFILES = _table(Profile)
ACCEPTANCES = _table(Acceptance)
DEFINITIONS, FACTS = map(_table, (Definition, Fact))
IS_NO_HUNT = RUNS.c.hunt.is_(None)
"""True of the runs that were not made by bisecting or for an A/B comparison."""
IS_UNDISTURBED = sa.or_(RUNS.c.disturbed.is_(None), RUNS.c.disturbed == "")
"""True of the runs during which the machine did nothing else, as far as known."""
IS_HISTORY = sa.and_(IS_NO_HUNT, IS_UNDISTURBED)
"""True of the runs that make up the history of their entry: no hunts, and no disturbed runs."""
PARTS = (METRICS, SAMPLES, PARAMS, REQUIREMENTS, STAGES, PROFILES)
"""Tables of the parts of a run; their first column is the run's id."""
