"""The tables, and the only definition of their columns. A change here needs a migration: see docs/database.md."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Any, ClassVar

import sqlalchemy as sa
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column

from curator_bench.store.column_types import Document, Key, Moment, Number, Words
from curator_bench.store.records import new_uid
from curator_bench.store.running import IS_RUNNING, RUNNING, RUNS

_ID = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
"""Row id. SQLite assigns ids automatically only to a column of type INTEGER."""
_WATCHER = "_watcher"
_PARTS_OF_A_RUN: Any = {"sqlite_with_rowid": False}
"""Store rows in key order, so that the parts of one run are adjacent and the key is stored once."""


class Base(DeclarativeBase):
    metadata = sa.MetaData(
        naming_convention={
            "ix": "ix_%(table_name)s_%(column_0_N_name)s",
            "uq": "uq_%(table_name)s_%(column_0_N_name)s",
            "fk": "fk_%(table_name)s_%(column_0_N_name)s",
            "pk": "pk_%(table_name)s",
        }
    )
    type_annotation_map: ClassVar[dict[Any, Any]] = {
        str: Words(),
        int: sa.BigInteger(),
        float: Number(),
        bool: sa.Boolean(),
        datetime: Moment(),
    }


def _owned_by(column: str, *, index: bool = False, **options: Any) -> Mapped[Any]:
    """Foreign key to the owner's row. Deleting the owner deletes this row."""
    return mapped_column(sa.ForeignKey(column, ondelete="CASCADE"), index=index, **options)


class BenchSession(Base):
    """A session: a name in one results directory. Every invocation that uses the name joins it."""

    __tablename__ = "bench_session"

    id: Mapped[int] = mapped_column(_ID, primary_key=True)
    uid: Mapped[str] = mapped_column(Key(), unique=True, default=new_uid)
    name: Mapped[str] = mapped_column(Key(), index=True)
    results_directory: Mapped[str]
    reason: Mapped[str | None]
    commit: Mapped[str | None]
    dirty: Mapped[bool | None]
    branch: Mapped[str | None]
    committed_at: Mapped[datetime | None]
    """Time of the commit, as its committer has it."""
    commit_depth: Mapped[int | None]
    """Number of commits up to this one, counting first parents only; NULL in a shallow checkout."""
    branches: Mapped[Any | None] = mapped_column(Document())
    """Names of the branches that contained the commit of a detached checkout."""
    viewer_url: Mapped[str | None]
    sink_urls: Mapped[Any | None] = mapped_column(Document())


class Invocation(Base):
    """One pytest process tree that ran entries of a session."""

    __tablename__ = "invocation"

    id: Mapped[int] = mapped_column(_ID, primary_key=True)
    uid: Mapped[str] = mapped_column(Key(), unique=True, default=new_uid)
    session: Mapped[int] = _owned_by("bench_session.id", index=True)
    start: Mapped[datetime]
    end: Mapped[datetime | None]
    exit_status: Mapped[int | None]
    host: Mapped[str | None]
    environment: Mapped[Any | None] = mapped_column(Document())
    ci_run_url: Mapped[str | None]
    command_line: Mapped[str | None]


class Subject(Base):
    """A package under test in a session. A package that changed during the session has several rows."""

    __tablename__ = "subject"

    id: Mapped[int] = mapped_column(_ID, primary_key=True)
    session: Mapped[int] = _owned_by("bench_session.id", index=True)
    package: Mapped[str]
    version: Mapped[str | None]
    commit: Mapped[str | None]
    dirty: Mapped[bool | None]


class Definition(Base):
    """A definition that was run. Every run with its hash is of its series, also runs recorded before it was known."""

    __tablename__ = "definition"

    id: Mapped[int] = mapped_column(_ID, primary_key=True)
    uid: Mapped[str] = mapped_column(Key(), unique=True)
    """The definition hash."""
    series_hash: Mapped[str]
    content_hash: Mapped[str]
    content: Mapped[Any] = mapped_column(Document())


class Fact(Base):
    """Something that runs were measured with, stored once: a script's text, a list of packages, a machine."""

    __tablename__ = "fact"

    id: Mapped[int] = mapped_column(_ID, primary_key=True)
    uid: Mapped[str] = mapped_column(Key(), unique=True)
    """Hash of the content."""
    content: Mapped[Any] = mapped_column(Document())


class TestRun(Base):
    """One attempt at an entry, or at a Python benchmark. Written when it starts, completed when it ends."""

    __tablename__ = RUNS
    __test__: ClassVar[bool] = False  # or pytest would collect the class because of its name
    __table_args__ = (
        sa.Index(None, "name", "path", "machine_id", "start"),  # the history of an entry, newest last
        # Few rows match, and every opening for writing looks for them. A partial index on PostgreSQL would need its
        # dialect, 20 ms at every import; there it is a plain index of few values, each stored once.
        sa.Index("ix_test_run_running", "verdict", sqlite_where=sa.text(IS_RUNNING)),
    )

    id: Mapped[int] = mapped_column(_ID, primary_key=True)
    uid: Mapped[str] = mapped_column(Key(), unique=True, default=new_uid)
    session: Mapped[int] = mapped_column(sa.ForeignKey("bench_session.id"), index=True)
    invocation: Mapped[int | None] = mapped_column(sa.ForeignKey("invocation.id", ondelete="SET NULL"), index=True)
    name: Mapped[str] = mapped_column(Key())
    originalname: Mapped[str] = mapped_column(Key(), index=True)
    path: Mapped[str] = mapped_column(Key())
    nodeid: Mapped[str | None]
    definition_hash: Mapped[str | None]
    circumstances: Mapped[str | None]
    """Uid of a fact that names the other facts: packages, machine, environment, configuration."""
    attempt: Mapped[int] = mapped_column(default=1)
    hunt: Mapped[str | None]
    """What the run is recorded for, as in `values.Hunt`; NULL if it is history."""
    disturbed: Mapped[str | None]
    """What disturbed the run, which then is no history; empty if nothing did, NULL if it is not known."""
    verdict: Mapped[str] = mapped_column(default=RUNNING)
    host: Mapped[str | None] = mapped_column(Key())
    machine_id: Mapped[str | None] = mapped_column(Key())
    node: Mapped[str | None]
    gpu: Mapped[str | None]
    boot_id: Mapped[str | None]
    pid: Mapped[int | None]
    process_start: Mapped[float | None]
    heartbeat_at: Mapped[datetime | None]
    setup_outcome: Mapped[str | None]
    call_outcome: Mapped[str | None]
    teardown_outcome: Mapped[str | None]
    start: Mapped[datetime]
    end: Mapped[datetime | None]
    duration: Mapped[float | None]
    exit_code: Mapped[int | None]
    command: Mapped[str | None]
    log_path: Mapped[str | None]
    error: Mapped[str | None]
    python_version: Mapped[str | None]
    platform: Mapped[str | None]
    ray_version: Mapped[str | None]
    ci_run_url: Mapped[str | None]
    ray_num_cpus: Mapped[float | None]
    ray_num_gpus: Mapped[float | None]
    average_memory: Mapped[float | None]
    peak_memory: Mapped[float | None]
    compute_time: Mapped[float | None]
    disk_spill_time: Mapped[float | None]
    serializing_time: Mapped[float | None]
    transfer_time: Mapped[float | None]
    peak_gpu_memory: Mapped[float | None]
    average_gpu_utilization: Mapped[float | None]
    cluster_name: Mapped[str | None]
    cluster_id: Mapped[str | None]
    cluster_details_url: Mapped[str | None]
    performance_report_url: Mapped[str | None]
    sink_urls: Mapped[Any | None] = mapped_column(Document())

    def __setattr__(self, name: str, value: Any) -> None:
        watcher = self.__dict__.get(_WATCHER)
        super().__setattr__(name, watcher(name, value) if watcher else value)

    def watch(self, watcher: Callable[[str, Any], Any]) -> None:
        """From now on set attributes to what `watcher` makes of their name and value; it may refuse them."""
        self.__dict__[_WATCHER] = watcher


class Metric(Base):
    """One metric of a run. `store.scalars` defines `value` and `text`."""

    __tablename__ = "metric"
    __table_args__ = _PARTS_OF_A_RUN

    run: Mapped[int] = _owned_by("test_run.id", primary_key=True)
    name: Mapped[str] = mapped_column(Key(), primary_key=True)
    value: Mapped[float | None]
    text: Mapped[str | None]


class Sample(Base):
    """A metric of one repeat. Stored if there are several repeats, whose median is the metric."""

    __tablename__ = "sample"
    __table_args__ = _PARTS_OF_A_RUN

    run: Mapped[int] = _owned_by("test_run.id", primary_key=True)
    repeat: Mapped[int] = mapped_column(primary_key=True)
    metric: Mapped[str] = mapped_column(Key(), primary_key=True)
    value: Mapped[float | None]


class Param(Base):
    """One parameter of a run, as its script wrote it."""

    __tablename__ = "param"
    __table_args__ = _PARTS_OF_A_RUN

    run: Mapped[int] = _owned_by("test_run.id", primary_key=True)
    name: Mapped[str] = mapped_column(Key(), primary_key=True)
    value: Mapped[str | None]


class Requirement(Base):
    """Result of one bound of a requirement."""

    __tablename__ = "requirement"
    __table_args__ = _PARTS_OF_A_RUN

    run: Mapped[int] = _owned_by("test_run.id", primary_key=True)
    position: Mapped[int] = mapped_column(primary_key=True)
    metric: Mapped[str] = mapped_column(Key())
    bound: Mapped[str]
    limit: Mapped[str | None]
    actual: Mapped[str | None]
    met: Mapped[bool | None]
    """NULL if inconclusive: beyond the limit, but not certainly so."""
    better: Mapped[str | None]
    """`less` or `more`, if the requirement declares which is better."""
    note: Mapped[str | None]
    """Reason why it could not be compared, or what would decide an inconclusive result."""


class Stage(Base):
    """One stage of a run: a named part of it with its own time. `values.Stage` defines the figures."""

    __tablename__ = "stage"
    __table_args__ = _PARTS_OF_A_RUN

    run: Mapped[int] = _owned_by("test_run.id", primary_key=True)
    position: Mapped[int] = mapped_column(primary_key=True)
    """Its place in the order in which the stages began."""
    name: Mapped[str] = mapped_column(Key())
    kind: Mapped[str]
    """What it comes from, as in `values.StageKind`."""
    parts: Mapped[str | None]
    """JSON list of the operators that were fused into it; NULL if none were."""
    count: Mapped[int]
    started_s: Mapped[float | None]
    ended_s: Mapped[float | None]
    active_s: Mapped[float | None]
    executing_s: Mapped[float | None]
    reading_s: Mapped[float | None]
    storing_s: Mapped[float | None]
    waiting_s: Mapped[float | None]
    times_missing: Mapped[int]
    waits_missing: Mapped[int]
    bytes_in: Mapped[int | None]
    bytes_out: Mapped[int | None]
    backpressure_s: Mapped[float | None]
    retries: Mapped[int]
    failures: Mapped[int]


class Profile(Base):
    """The places where time or memory went inside a run, by one profiler, from an extra run that is not recorded."""

    __tablename__ = "profile"
    __table_args__ = _PARTS_OF_A_RUN

    run: Mapped[int] = _owned_by("test_run.id", primary_key=True)
    profiler: Mapped[str] = mapped_column(Key(), primary_key=True)
    unit: Mapped[str]
    """`samples` or `bytes`."""
    seconds: Mapped[float]
    """Wall time that was sampled."""
    stacks: Mapped[str]
    """Collapsed stacks, compressed by zlib, in base64. `store.profiles` packs and unpacks them."""


class Acceptance(Base):
    """An accepted change of a metric: the level since then is the new normal.

    It refers to no run, so that it holds in every copy of the history, also after pruning.
    """

    __tablename__ = "acceptance"
    __table_args__ = (sa.Index(None, "name", "path"),)

    id: Mapped[int] = mapped_column(_ID, primary_key=True)
    uid: Mapped[str] = mapped_column(Key(), unique=True, default=new_uid)
    name: Mapped[str] = mapped_column(Key())
    path: Mapped[str] = mapped_column(Key())
    metric: Mapped[str] = mapped_column(Key())
    since: Mapped[datetime]
    """Start of the first run at the new level."""
    until: Mapped[datetime]
    """Start of the newest run at acceptance. Changes up to then are closed."""
    at: Mapped[datetime]
    why: Mapped[str]
