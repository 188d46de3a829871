"""Profiles of a small program for tests, and runs that have them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from cli.nights import History
from sqlalchemy import select

from curator_bench.store.database import database_url, open_for_writing
from curator_bench.store.profiles import packed, rows_of
from curator_bench.store.tables import PROFILES, RUNS, SESSIONS
from curator_bench.values import Hunt
from curator_bench.values.profiles import Profile

PROGRAM = {
    "main:run": 500.0,
    "main:run;words:read;[waiting]": 2000.0,
    "main:run;words:clean": 3000.0,
    "main:run;words:clean;re:sub": 1500.0,
    "main:run;words:count;re:sub": 2500.0,
    "main:run;words:count": 1000.0,
    "main:run;words:write;threading:wait;[waiting]": 1200.0,
    "main:run;words:send;threading:wait;[waiting]": 5000.0,
    "main:run;tree:walk": 400.0,
    "main:run;tree:walk;tree:walk": 600.0,
    "main:run;tree:walk;tree:walk;tree:walk": 500.0,
    "main:run;json:dump": 800.0,
    "main:run;json:load": 700.0,
}


def profiles(count: int, *, seed: int, slower: Mapping[str, float] | None = None, scale: float = 1.0) -> list[Profile]:
    """Sample runs of the program, in which these stacks take so many times as long."""
    random = np.random.default_rng(seed)
    found = []
    for _ in range(count):
        stacks = {
            tuple(stack.split(";")): int(random.poisson(scale * samples * (slower or {}).get(stack, 1.0)))
            for stack, samples in PROGRAM.items()
        }
        found.append(Profile("py-spy", "samples", sum(stacks.values()) / 100, stacks))
    return found


def record_profiles(history: History, entry: str, found: Sequence[Profile | None]) -> None:
    """Record profiles of the runs of an entry, from the first on; None for a run without."""
    with open_for_writing(database_url(str(history.db))) as database, database.writing() as connection:
        ids = connection.scalars(select(RUNS.c.id).where(RUNS.c.name == entry).order_by(RUNS.c.start)).fetchall()
        for run, profile in zip(ids, found, strict=False):
            if profile is not None:
                connection.execute(PROFILES.insert(), rows_of(run, [packed(profile)]))


def record_hunt(history: History, entry: str, session: str, commit: str, found: Sequence[Profile]) -> None:
    """Record runs of a bisect at one commit, after those that are there; they have these profiles."""
    of_session = RUNS.c.session.in_(select(SESSIONS.c.id).where(SESSIONS.c.name == session).scalar_subquery())
    ids = select(RUNS.c.id).where(of_session).order_by(RUNS.c.start)
    with open_for_writing(database_url(str(history.db))) as database:
        with database.reading() as connection:
            there = len(connection.scalars(ids).fetchall())
        count = there + len(found)
        history.nights({(entry, "time_taken_s"): [1.0] * count}, session=session, commits=[commit] * count)
        with database.writing() as connection:
            connection.execute(RUNS.update().where(of_session).values(hunt=str(Hunt.BISECT)))
            for run, profile in zip(connection.scalars(ids).fetchall()[there:], found, strict=True):
                connection.execute(PROFILES.insert(), rows_of(run, [packed(profile)]))
