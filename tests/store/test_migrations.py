from __future__ import annotations

import os
import re
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import sqlalchemy as sa
from other_user import needs_a_second_user, run, shared_folder

from curator_bench.errors import BenchError
from curator_bench.measure.processes import busyness
from curator_bench.store.database import Database, migrating, open_for_reading, open_for_writing
from curator_bench.store.migrations import Migrations, shipped_folder
from curator_bench.store.records import RunEnd
from curator_bench.store.rows import parts_of
from curator_bench.store.schema import Base
from curator_bench.values import Check, Verdict

if TYPE_CHECKING:
    from store.conftest import Bench

CLONE = Path(__file__).parents[2]
NEXT = "aaaa00000001"


def add_revision(folder: Path, upgrade: str, revision: str = NEXT, parent: str | None = None) -> Migrations:
    """What a developer writes; the body of `upgrade` is given."""
    script = f'''"""A revision of a test."""
import sqlalchemy as sa
from alembic import op

revision: str = "{revision}"
down_revision: str | None = "{parent or Migrations().head}"


def upgrade() -> None:
    {upgrade}
'''
    (folder / "versions" / f"{revision}.py").write_text(script)
    return Migrations(folder)


ADD_COLUMN = 'op.add_column("test_run", sa.Column("comment", sa.Text(), server_default="none"))'
MAKE_ANEW = """with op.batch_alter_table("test_run") as batch:
        batch.alter_column("duration", new_column_name="seconds")
        batch.drop_column("gpu")
    with op.batch_alter_table("metric") as batch:
        batch.add_column(sa.Column("unit", sa.Text()))
        batch.alter_column("text", new_column_name="words")"""


def path_of(bench: Bench) -> Path:
    return Path(str(bench.url.database))


def copies_of(bench: Bench) -> list[str]:
    path = path_of(bench)
    return sorted(file.name for file in path.parent.glob(f"{path.name}?*"))


def fill(bench: Bench, runs: int = 3) -> None:
    with open_for_writing(bench.url) as database:
        recorder = bench.recorder(database)
        for number in range(runs):
            uid = recorder.start_run(bench.start(f"run_{number}"))
            recorder.finish_run(uid, bench.end(metrics={"rate": float(number)}, params={"n": number}))
        assert recorder.problems() == ()


def all_rows(database: Database) -> dict[str, list[tuple[object, ...]]]:
    with database.reading() as connection:
        return {
            table.name: sorted(map(tuple, connection.execute(sa.select(table))), key=repr)
            for table in Base.metadata.sorted_tables
        }


def test_models_and_migrations_agree(bench: Bench) -> None:
    from alembic.autogenerate import compare_metadata
    from alembic.runtime.migration import MigrationContext

    with bench.open().reading() as connection:
        context = MigrationContext.configure(connection, opts={"compare_type": True, "compare_server_default": True})
        assert compare_metadata(context, Base.metadata) == []


def test_sqlite_has_what_alembic_does_not_compare(sqlite_bench: Bench) -> None:
    """The text of a table or index made by migrations is that of the same made from the models."""
    by_models = sa.create_engine("sqlite://")
    Base.metadata.create_all(by_models)
    asking = "SELECT name, sql FROM sqlite_master WHERE sql IS NOT NULL AND name <> 'alembic_version'"
    with by_models.connect() as ours, sqlite_bench.open().reading() as theirs:
        expected, found = (sorted(map(tuple, one.exec_driver_sql(asking))) for one in (ours, theirs))
    assert [(name, clauses(text)) for name, text in found] == [(name, clauses(text)) for name, text in expected]


def clauses(sql: str) -> list[str]:
    """What a CREATE TABLE says, in whatever order; a table that was made anew has its name in quotes."""
    sql = re.sub(r'^CREATE TABLE "(\w+)"', r"CREATE TABLE \1", sql)
    body, _, options = " ".join(sql.replace("(", " (").split()).rpartition(")")
    return [options.strip(), *sorted(clause.strip() for clause in body.split(","))]


@pytest.mark.parametrize("revision", [None, *Migrations().revisions])
def test_from_every_revision_to_head_with_all_that_was_recorded(bench: Bench, revision: str | None) -> None:
    migrations, tables = Migrations(), sa.MetaData()
    if revision is not None:
        with migrating(bench.url) as connection:
            migrations.upgrade(connection, revision)
            tables.reflect(connection)
            put_a_row_into_each(connection, tables)
    with open_for_writing(bench.url) as database, database.reading() as connection:
        assert migrations.current(connection) == migrations.head
        for table in Base.metadata.sorted_tables:
            count = connection.scalar(sa.select(sa.func.count()).select_from(table))
            assert count == (1 if table.name in tables.tables else 0), table.name


def test_a_check_may_be_inconclusive_in_a_database_that_knew_only_met_and_not_met(bench: Bench) -> None:
    """Upgrades what release 1.0 wrote: its checks stay as they were, and one that is inconclusive has room."""
    migrations, before = Migrations(), sa.MetaData()
    known = Check("known", "max_value", 1.0, 2.0, met=False)
    inconclusive = Check("time_s", "max_regression", 0.1, 4.0, met=None, note="2 runs more would decide")
    with migrating(bench.url) as connection:
        migrations.upgrade(connection, "cb2df2081fa0")
        before.reflect(connection)
        put_a_row_into_each(connection, before)
        table = before.tables["requirement"]
        assert not table.c.met.nullable
        connection.execute(sa.update(table).values(metric="known", met=False))
    with open_for_writing(bench.url) as database, database.reading() as connection:
        rows = parts_of(1, RunEnd(Verdict.PASSED, datetime.now(UTC), checks=(known, inconclusive)))
        requirement, (_, second) = next((table, found) for table, found in rows if table.name == "requirement")
        connection.execute(sa.insert(requirement), [second | {"position": 2}])
        asking = "SELECT metric, met, note FROM requirement ORDER BY metric"
        found = [tuple(row) for row in connection.exec_driver_sql(asking)]
    assert found == [("known", False, None), ("time_s", None, "2 runs more would decide")]


OLD_COMMANDS = {
    "pytest benchmarks --benchmark": None,
    "pytest a.yaml --bench-entries x --benchmark --benchmark-db=/b.db --bench-session bisect-40613be5-1-c45388d7cc4a"
    " --bench-runs 5 --bench-reason 'bisect of t_s between a and b' -q -p no:cacheprovider --bench-sink none"
    " --bench-confirm 0": "bisect",
    "pytest a.yaml --benchmark --benchmark-db=/b.db --bench-session ab-5d1c07e2-1-a-again-2 -q -p no:cacheprovider"
    " --bench-sink none": "ab",
    "pytest a.yaml --benchmark --junitxml=/tmp/curator-bench-x4_k2l9z/junit.xml --bench-inconclusive=pass": (
        "bisect-step"
    ),
    "pytest a.yaml --benchmark --bench-session ab-5d1c07e2-1-a-2 -q": None,
    "pytest a.yaml --benchmark --junitxml=/tmp/junit.xml": None,
}


def test_earlier_runs_of_bisects_and_comparisons_leave_the_history(bench: Bench) -> None:
    """Upgrades a database of the release before. A name alone is not enough: a user may have given it."""
    migrations, before = Migrations(), sa.MetaData()
    with migrating(bench.url) as connection:
        migrations.upgrade(connection, "5f0d7c1e9a42")
        before.reflect(connection)
        put_a_row_into_each(connection, before)
        invocations, runs = before.tables["invocation"], before.tables["test_run"]
        invocation, run = (dict(connection.execute(sa.select(table)).one()._mapping) for table in (invocations, runs))
        for number, command in enumerate(OLD_COMMANDS, 2):
            own = {"id": number, "uid": str(number)}
            connection.execute(sa.insert(invocations), invocation | own | {"command_line": command})
            connection.execute(sa.insert(runs), run | own | {"invocation": number, "name": command})
        sessions = before.tables["bench_session"]
        imported = {"name": "bisect-40613be5-1-c45388d7cc4a", "reason": "bisect of t_s between c45388d7cc4a and d7"}
        session = dict(connection.execute(sa.select(sessions)).one()._mapping)
        connection.execute(sa.insert(sessions), session | imported | {"id": 2, "uid": "2"})
        without = {"id": 99, "uid": "99", "session": 2, "invocation": None, "name": "imported"}
        connection.execute(sa.insert(runs), run | without)
    with open_for_writing(bench.url) as database, database.reading() as connection:
        found = dict(map(tuple, connection.exec_driver_sql("SELECT name, hunt FROM test_run WHERE id > 1")))
    assert found == {**OLD_COMMANDS, "imported": "bisect"}


def put_a_row_into_each(connection: sa.Connection, tables: sa.MetaData) -> None:
    """Whatever columns there are: they all refer to a row 1, and hold something of their type."""
    for table in tables.sorted_tables:
        if table.name == "alembic_version":
            continue
        values: dict[str, object] = {}
        for column in table.columns:
            kind = column.type.python_type
            made: object = datetime.now(UTC) if kind is datetime else {} if kind in (dict, object) else kind(1)
            values[column.name] = made
        connection.execute(sa.insert(table), values)


def test_data_survives_tables_that_are_made_anew(bench: Bench, alembic_folder: Path) -> None:
    fill(bench)
    migrations = add_revision(alembic_folder, MAKE_ANEW)
    with open_for_writing(bench.url, migrations=migrations) as database, database.reading() as connection:
        assert migrations.current(connection) == NEXT
        asking = "SELECT r.name, r.seconds, m.value, m.unit FROM test_run r JOIN metric m ON m.run = r.id ORDER BY 1"
        found = list(map(tuple, connection.exec_driver_sql(asking)))
    assert found == [("run_0", 90.0, 0.0, None), ("run_1", 90.0, 1.0, None), ("run_2", 90.0, 2.0, None)]
    if bench.url.drivername == "sqlite":
        with closing(sqlite3.connect(path_of(bench))) as plain:
            assert plain.execute("SELECT wr FROM pragma_table_list('metric')").fetchall() == [(1,)]
            assert plain.execute("PRAGMA foreign_key_check").fetchall() == []
            assert len(plain.execute("PRAGMA foreign_key_list('metric')").fetchall()) == 1


def test_a_revision_may_follow_several_in_either_quotes(tmp_path: Path) -> None:
    versions = tmp_path / "versions"
    versions.mkdir()
    (versions / "a.py").write_text("revision: str = 'a'\ndown_revision: str | None = None\n")
    (versions / "b.py").write_text('revision = "b"\ndown_revision = None\n')
    (versions / "c.py").write_text("""revision: str = "c"\ndown_revision: tuple[str, ...] = ('a', "b")\n""")
    migrations = Migrations(tmp_path)
    assert migrations.revisions == {"a": (), "b": (), "c": ("a", "b")}
    assert migrations.head == "c"


def test_opening_at_head_does_not_even_import_alembic(sqlite_bench: Bench) -> None:
    fill(sqlite_bench)
    code = (
        "import sys\n"
        "from curator_bench.store.database import *\n"
        "open_for_writing(database_url(sys.argv[1])).close()\n"
        "print(*(name for name in ('alembic', 'sqlalchemy.orm', 'psycopg') if name in sys.modules))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, path_of(sqlite_bench)], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == ""


OPEN_TOGETHER = """
import logging, sys
from pathlib import Path
from curator_bench.store.database import database_url, open_for_writing
from curator_bench.store.migrations import Migrations

class Counting(Migrations):
    def upgrade(self, connection, revision="head"):
        super().upgrade(connection, revision)
        print("migrated", flush=True)

print("ready", flush=True)
sys.stdin.readline()
open_for_writing(database_url(sys.argv[1]), migrations=Counting(Path(sys.argv[2]))).close()
"""


def open_together(bench: Bench, folder: Path, processes: int = 4) -> list[str]:
    """Opens the database in several processes at the same moment; what they had to say."""
    url = bench.url.render_as_string(hide_password=False)
    children = [
        subprocess.Popen(
            [sys.executable, "-c", OPEN_TOGETHER, url, str(folder)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for _ in range(processes)
    ]
    for child in children:
        assert child.stdout is not None
        assert child.stdout.readline() == "ready\n"
    for child in children:
        assert child.stdin is not None
        child.stdin.write("\n")
        child.stdin.flush()
    return [child.communicate(timeout=120 * busyness())[0] for child in children]


def test_one_of_many_processes_makes_the_database(bench: Bench) -> None:
    assert sorted(open_together(bench, shipped_folder())) == [*[""] * 3, "migrated\n"]


def test_one_of_many_processes_migrates(bench: Bench, alembic_folder: Path) -> None:
    fill(bench)
    add_revision(alembic_folder, ADD_COLUMN)
    assert sorted(open_together(bench, alembic_folder)) == [*[""] * 3, "migrated\n"]
    if bench.url.drivername == "sqlite":
        assert copies_of(bench) == [f"benchmark.db.before-{NEXT}"]


def test_a_database_newer_than_the_code_is_refused_in_one_line_and_left_alone(
    sqlite_bench: Bench, alembic_folder: Path
) -> None:
    fill(sqlite_bench)
    open_for_writing(sqlite_bench.url, migrations=add_revision(alembic_folder, ADD_COLUMN)).close()
    path = path_of(sqlite_bench)
    before = path.read_bytes()
    for opening in (open_for_writing, open_for_reading):
        with pytest.raises(BenchError, match=f"^{path} was written by a newer curator-bench .*{NEXT}.*$"):
            opening(sqlite_bench.url)
    assert path.read_bytes() == before
    assert copies_of(sqlite_bench) == [f"benchmark.db.before-{NEXT}"]


def test_a_newer_database_on_a_server_is_refused(bench: Bench, alembic_folder: Path) -> None:
    open_for_writing(bench.url, migrations=add_revision(alembic_folder, ADD_COLUMN)).close()
    with pytest.raises(BenchError, match="written by a newer curator-bench"):
        bench.open()


def test_a_database_with_another_programs_revisions_is_refused(bench: Bench) -> None:
    with migrating(bench.url) as connection:
        connection.exec_driver_sql("CREATE TABLE alembic_version (version_num VARCHAR(32))")
        connection.exec_driver_sql("INSERT INTO alembic_version VALUES ('924e9b1430e1')")
    with pytest.raises(BenchError, match="belongs to another program"):
        bench.open()


def test_before_data_is_migrated_a_copy_is_made(sqlite_bench: Bench, alembic_folder: Path) -> None:
    fill(sqlite_bench)
    assert copies_of(sqlite_bench) == []
    with open_for_writing(sqlite_bench.url) as database:
        before = all_rows(database)
    open_for_writing(sqlite_bench.url, migrations=add_revision(alembic_folder, ADD_COLUMN)).close()
    assert copies_of(sqlite_bench) == [f"benchmark.db.before-{NEXT}"]
    path_of(sqlite_bench).with_name(f"benchmark.db.before-{NEXT}").replace(path_of(sqlite_bench))
    with open_for_writing(sqlite_bench.url) as database:
        assert all_rows(database) == before


@needs_a_second_user
def test_the_copy_is_not_written_through_a_link_of_another_user(sqlite_bench: Bench, alembic_folder: Path) -> None:
    fill(sqlite_bench)
    with shared_folder() as shared:
        path = shared / "benchmark.db"
        shutil.copy(path_of(sqlite_bench), path)
        precious = path_of(sqlite_bench).with_name("precious")
        precious.touch()
        guessed = shared / f"benchmark.db.before-{NEXT}.unfinished-{os.getpid()}"
        run("os.symlink(*sys.argv[1:])", precious, guessed)
        url = sqlite_bench.url.set(database=str(path))
        open_for_writing(url, migrations=add_revision(alembic_folder, ADD_COLUMN)).close()
        assert (shared / f"benchmark.db.before-{NEXT}").stat().st_size > 0
        assert not [one for one in shared.iterdir() if one.name.startswith(".")]
    assert precious.stat().st_size == 0


def test_a_database_without_data_is_migrated_without_a_copy(sqlite_bench: Bench, alembic_folder: Path) -> None:
    sqlite_bench.open().close()
    open_for_writing(sqlite_bench.url, migrations=add_revision(alembic_folder, ADD_COLUMN)).close()
    assert copies_of(sqlite_bench) == []


def test_a_failed_migration_leaves_the_original(bench: Bench, alembic_folder: Path) -> None:
    fill(bench)
    with open_for_writing(bench.url) as database:
        before = all_rows(database)
    broken = f"""{MAKE_ANEW}
    op.drop_table("sample")
    raise RuntimeError("the disk of the developer was too small")"""
    with pytest.raises(BenchError, match=r"was not changed.*: the disk of the developer was too small$"):
        open_for_writing(bench.url, migrations=add_revision(alembic_folder, broken))
    with open_for_writing(bench.url) as database:
        assert all_rows(database) == before


def test_a_migration_that_orphans_rows_is_undone(bench: Bench, alembic_folder: Path) -> None:
    fill(bench)
    orphaning = 'op.execute("DELETE FROM bench_session")'
    with pytest.raises(BenchError):
        open_for_writing(bench.url, migrations=add_revision(alembic_folder, orphaning))
    assert len(bench.rows("bench_session", "uid")) == 1


KILLED = """
import os, signal, sys
from pathlib import Path
from curator_bench.store.database import database_url, open_for_writing
from curator_bench.store.migrations import Migrations

open_for_writing(database_url(sys.argv[1]), migrations=Migrations(Path(sys.argv[2])))
"""


def test_a_migration_that_is_killed_leaves_the_original(bench: Bench, alembic_folder: Path) -> None:
    fill(bench)
    with open_for_writing(bench.url) as database:
        before = all_rows(database)
    killing = f"""{MAKE_ANEW}
    import os, signal
    os.kill(os.getpid(), signal.SIGKILL)"""
    add_revision(alembic_folder, killing)
    url = bench.url.render_as_string(hide_password=False)
    assert subprocess.run([sys.executable, "-c", KILLED, url, alembic_folder], check=False).returncode == -9
    with open_for_writing(bench.url) as database:
        assert all_rows(database) == before


def test_an_older_file_is_read_without_being_changed(sqlite_bench: Bench, alembic_folder: Path) -> None:
    fill(sqlite_bench)
    path = path_of(sqlite_bench)
    before = path.read_bytes()
    database = open_for_reading(sqlite_bench.url, migrations=add_revision(alembic_folder, ADD_COLUMN))
    assert database is not None
    with database, database.reading() as connection:
        assert database.shown == str(path)
        assert connection.exec_driver_sql("SELECT DISTINCT comment FROM test_run").scalars().all() == ["none"]
    assert path.read_bytes() == before
    assert copies_of(sqlite_bench) == []


@pytest.mark.parametrize("url", ["postgresql"], indirect=True)
def test_an_older_database_on_a_server_is_not_migrated_by_reading(bench: Bench, alembic_folder: Path) -> None:
    fill(bench)
    with pytest.raises(BenchError, match="alembic upgrade head"):
        open_for_reading(bench.url, migrations=add_revision(alembic_folder, ADD_COLUMN))


@pytest.fixture
def clone(tmp_path: Path) -> Iterator[Path]:
    """What a developer has of this repository, as far as alembic is concerned."""
    made = tmp_path / "clone"
    made.mkdir()
    shutil.copy(CLONE / "alembic.ini", made)
    shutil.copytree(CLONE / "alembic", made / "alembic", ignore=shutil.ignore_patterns("__pycache__"))
    package = made / "src" / "curator_bench"
    shutil.copytree(CLONE / "src" / "curator_bench", package, ignore=shutil.ignore_patterns("__pycache__"))
    yield made
    shutil.rmtree(made)


def alembic_in(clone: Path, *words: str) -> str:
    environment = {"PYTHONPATH": str(clone / "src"), "PATH": "/usr/bin:/bin"}
    command = [sys.executable, "-m", "alembic", *words]
    done = subprocess.run(command, cwd=clone, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


def test_a_change_of_the_models_becomes_a_revision_by_one_command(clone: Path) -> None:
    schema = clone / "src" / "curator_bench" / "store" / "schema.py"
    text = schema.read_text()
    last = "    performance_report_url: Mapped[str | None]\n"
    assert last in text
    schema.write_text(
        text.replace(last, f"{last}    mood: Mapped[str | None]\n    mood_since: Mapped[datetime | None]\n")
    )
    (clone / "benchmark.db").write_text("whatever is here does not matter")
    said = alembic_in(clone, "revision", "--autogenerate", "-m", "moods")
    assert "Generating" in said
    (script,) = (clone / "alembic" / "versions").glob("*_moods_*.py")
    body = script.read_text()
    added = re.findall(r"batch_op\.add_column\((.*)\)", body)
    assert added == [
        "sa.Column('mood', sa.Text(), nullable=True)",
        "sa.Column('mood_since', sa.DateTime(timezone=True), nullable=True)",
    ]
    assert "create_table" not in body
    assert "drop" not in body.partition("def downgrade")[0]
    (clone / "benchmark.db").unlink()
    alembic_in(clone, "upgrade", "head")
    with closing(sqlite3.connect(clone / "benchmark.db")) as connection:
        connection.execute("SELECT mood, mood_since FROM test_run")
    (clone / "benchmark.db").unlink()
    assert "No new upgrade operations detected." in alembic_in(clone, "check")
    assert not (clone / "benchmark.db").exists()


def test_without_a_change_of_the_models_there_is_nothing_to_revise(clone: Path) -> None:
    alembic_in(clone, "revision", "--autogenerate", "-m", "nothing")
    (script,) = (clone / "alembic" / "versions").glob("*_nothing_*.py")
    assert len(re.findall(r"^    pass$", script.read_text(), re.MULTILINE)) == 2


def test_the_sql_of_a_migration_can_be_had_without_running_it(clone: Path) -> None:
    said = alembic_in(clone, "-x", "url=postgresql://nobody@nowhere/nothing", "upgrade", "head", "--sql")
    assert "CREATE TABLE test_run" in said
    assert not (clone / "benchmark.db").exists()


BANKRUPTCY = Path(__file__).with_name("bankruptcy_example.py")


def test_old_data_of_one_benchmark_can_be_declared_bankrupt(bench: Bench, alembic_folder: Path) -> None:
    """The worked example of docs/database.md."""
    from datetime import timedelta

    with open_for_writing(bench.url) as database:
        recorder = bench.recorder(database)
        for name, days in (("test_shuffle", -1), ("test_shuffle[big]", -2), ("test_shuffle", 1), ("test_join", -1)):
            uid = recorder.start_run(bench.start(name, start=bench.moment + timedelta(days=days)))
            recorder.finish_run(uid, bench.end(metrics={"rate": float(days)}))
    script = BANKRUPTCY.read_text()
    head = Migrations().head
    (alembic_folder / "versions" / "bankruptcy.py").write_text(script.replace("REVISION_BEFORE", head))
    with (
        open_for_writing(bench.url, migrations=Migrations(alembic_folder)) as database,
        database.reading() as connection,
    ):
        left = connection.exec_driver_sql("SELECT r.name, m.value FROM test_run r LEFT JOIN metric m ON m.run = r.id")
        assert sorted(map(tuple, left)) == [("test_join", -1.0), ("test_shuffle", 1.0)]
        assert connection.exec_driver_sql("SELECT count(*) FROM metric").scalar() == 2
