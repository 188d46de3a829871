"""The order of runs: that of commits on a branch where it is known, else that of time."""

from __future__ import annotations

import itertools
import random
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest

from curator_bench.store import queries
from curator_bench.store.all_series import all_series
from curator_bench.store.queries import EntryKey
from curator_bench.store.records import RunEnd, SessionRecord
from curator_bench.store.run_order import in_order
from curator_bench.values import CommitPlace, Subject, Verdict

if TYPE_CHECKING:
    from store.conftest import Bench

DAY = timedelta(days=1)
FIRST = datetime(2026, 1, 1, tzinfo=UTC)


@dataclass(frozen=True)
class Run:
    """`session` is also the day on which it began."""

    session: int


def begun(runs: Sequence[Run]) -> list[float]:
    return [(FIRST + run.session * DAY).timestamp() for run in runs]


def order_of(*commits: CommitPlace | None) -> list[int]:
    """The days of the runs, in order; one of each commit began on each day."""
    places = {day: commit for day, commit in enumerate(commits) if commit is not None}
    runs = [Run(day) for day in range(len(commits))]
    found = in_order(runs, begun(runs), places, lambda _: None)
    times = [moment for moment, _ in found]
    assert times == sorted(times)
    return [run.session for _, run in found]


def on(depth: int, *branches: str, committed: float | None = None) -> CommitPlace:
    return CommitPlace(depth, float(depth) if committed is None else committed, branches or ("main",))


@pytest.mark.parametrize(
    ("commits", "expected"),
    [
        ((on(1), on(2), on(5), on(3), on(4)), [0, 1, 3, 4, 2]),
        ((on(1), on(3), on(1), on(3)), [0, 2, 1, 3]),
        ((on(1), None, on(3), None, on(2)), [0, 1, 4, 2, 3]),
        ((on(5, committed=5), on(3, committed=9)), [0, 1]),
        ((on(5), on(3, "feature"), on(4, "feature")), [0, 1, 2]),
        ((on(5), on(6, "feature"), on(3, "feature", "main"), on(5, "feature")), [2, 0, 3, 1]),
        ((on(2, committed=0), on(4, committed=0), on(3, committed=0)), [0, 2, 1]),
        ((None, None), [0, 1]),
        ((on(5), CommitPlace(3, 3.0)), [0, 1]),
    ],
    ids=[
        *("measured later", "measured again", "without a commit", "rebased", "another branch", "detached"),
        *("within a second", "no repository", "on no branch"),
    ],
)
def test_a_run_stands_where_its_commit_stands(commits: tuple[CommitPlace | None, ...], expected: list[int]) -> None:
    assert order_of(*commits) == expected


def test_on_every_branch_commits_are_in_order_whatever_is_measured_when() -> None:
    chance = random.Random(0)
    for _ in range(300):
        depths = [chance.randrange(30) for _ in range(20)]
        branches = [("main",), ("feature",), ("main", "feature")]
        commits = [on(depth, *chance.choice(branches)) if chance.random() < 0.9 else None for depth in depths]
        found = [commits[day] for day in order_of(*commits)]
        for branch in ("main", "feature"):
            known = [commit.depth for commit in found if commit and branch in commit.branches]
            assert known == sorted(known)


def record(bench: Bench, *depths: int | None) -> None:
    """One run of each commit, an hour after the other."""
    database = bench.open()
    for hours, depth in enumerate(depths):
        moment = bench.moment + timedelta(hours=hours)
        session = SessionRecord(f"s{hours}", str(bench.results), f"u{hours}", commit=f"{depth}", branches=("main",))
        if depth is not None:
            session = replace(session, commit_depth=depth, committed_at=FIRST + depth * DAY)
        recorder = bench.recorder(database, invocation=f"i{hours}")
        recorder = type(recorder)(database, session, recorder.invocation)
        uid = recorder.start_run(bench.start("work", start=moment, machine_id="m"))
        recorder.finish_run(uid, RunEnd(Verdict.PASSED, moment, metrics={"t_s": float(depth or 0)}))
        assert recorder.problems() == ()


def test_queries_agree_on_the_order(bench: Bench) -> None:
    record(bench, 1, 2, 6, None, 4, 3)
    expected = [1.0, 2.0, 3.0, 4.0, 6.0, 0.0]
    with bench.open().reading() as connection:
        runs = queries.history(connection, EntryKey("work", "dedup/matrix.yaml"))
        assert [run.metrics["t_s"] for run in runs] == expected
        few = queries.history(connection, EntryKey("work", "dedup/matrix.yaml"), 3)
        assert [run.metrics["t_s"] for run in few] == expected[-3:]
        for branch, values in ((None, expected), ("main", expected)):
            (series,) = all_series(connection, branch=branch)
            assert series.values.tolist() == values
            assert series.starts.tolist() == sorted(series.starts.tolist())


def test_a_session_that_is_joined_at_another_commit_is_ordered_by_time(bench: Bench) -> None:
    database = bench.open()
    for commit, depth in (("a", 1), ("b", 9)):
        known = {"commit": commit, "commit_depth": depth, "committed_at": FIRST, "subjects": (Subject("ray", "2"),)}
        bench.recorder(database, uid="joined", invocation=commit, **known).start_invocation()
    assert bench.rows("bench_session", "commit", "commit_depth") == [("a", None)]


@pytest.mark.parametrize("is_shuffled", [False, True])
def test_five_hundred_runs_are_put_in_order_in_a_few_milliseconds(is_shuffled: bool) -> None:
    days = list(range(500))
    depths = random.Random(1).sample(days, 500) if is_shuffled else days
    runs, places = [Run(day) for day in days], {day: on(depth) for day, depth in zip(days, depths, strict=True)}

    def took() -> float:
        start = time.process_time()
        in_order(runs, begun(runs), places, lambda _: None)
        return time.process_time() - start

    assert min(took() for _ in range(5)) < 0.02
    assert [places[run.session].depth for _, run in in_order(runs, begun(runs), places, lambda _: None)] == days


def test_times_of_moved_runs_differ() -> None:
    runs = [Run(day) for day in range(4)]
    found = in_order(runs, begun(runs), {0: on(9), 1: on(1), 2: on(3), 3: on(2)}, lambda _: None)
    assert all(before < after for (before, _), (after, _) in itertools.pairwise(found))
