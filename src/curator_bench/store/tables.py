"""The tables of the schema, for those who write statements rather than objects."""

from __future__ import annotations

import sqlalchemy as sa

from curator_bench.store.schema import (
    Acceptance,
    Base,
    BenchSession,
    Invocation,
    Metric,
    Param,
    Requirement,
    Sample,
    Subject,
    TestRun,
)


def _table(model: type[Base]) -> sa.Table:
    return model.metadata.tables[model.__tablename__]


SESSIONS, INVOCATIONS, SUBJECTS, RUNS = map(_table, (BenchSession, Invocation, Subject, TestRun))
METRICS, SAMPLES, PARAMS, REQUIREMENTS = map(_table, (Metric, Sample, Param, Requirement))
ACCEPTANCES = _table(Acceptance)
PARTS = (METRICS, SAMPLES, PARAMS, REQUIREMENTS)
"""What belongs to a run; the first column says to which."""
