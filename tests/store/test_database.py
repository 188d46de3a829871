from __future__ import annotations

import os
import random
import sqlite3
import subprocess
import sys
import tempfile
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from sqlalchemy.exc import IntegrityError, OperationalError

from curator_bench.errors import BenchError, MissingExtra
from curator_bench.store.database import database_url, open_for_reading, open_for_writing
from curator_bench.store.sqlite import file_system_of, is_on_network
from curator_bench.store.urls import shown

if TYPE_CHECKING:
    from store.conftest import Bench

ODD_NAMES = [
    "with blank.db",
    "a?mode=memory#x.db",
    "100%41.db",
    "grüße.db",
    "quote'\".db",
    "file:x.db",
    "back\\slash.db",
]


def pragma(path: Path, name: str) -> object:
    with closing(sqlite3.connect(path)) as connection:
        return connection.execute(f"PRAGMA {name}").fetchone()[0]


def test_a_path_is_a_file_wherever_it_starts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", "/home/someone")
    assert database_url("benchmark.db").database == f"{tmp_path}/benchmark.db"
    assert database_url("benchmark.db", Path("/elsewhere")).database == "/elsewhere/benchmark.db"
    assert database_url("~/b.db").database == "/home/someone/b.db"
    assert database_url("sqlite:///b.db").database == f"{tmp_path}/b.db"
    assert database_url("sqlite:////abs/b.db").database == "/abs/b.db"


@pytest.mark.parametrize("scheme", ["postgres", "postgresql", "postgresql+psycopg"])
def test_every_spelling_of_postgresql_means_our_driver(scheme: str) -> None:
    assert database_url(f"{scheme}://u:p@host/db").drivername == "postgresql+psycopg"


@pytest.mark.parametrize(
    ("named", "problem"),
    [
        ("", "no database is named"),
        ("mysql://u:hunter22@host/db", "mysql is not a database that curator-bench supports"),
        ("sqlite://", "sqlite://: a database in memory is lost"),
        ("sqlite:///:memory:", "is lost when pytest ends"),
        ("postgresql://u:hunter22@host:port/db", "is not a database URL"),
    ],
)
def test_what_cannot_be_a_database_is_said_without_its_password(named: str, problem: str) -> None:
    with pytest.raises(BenchError) as refusal:
        database_url(named)
    assert problem in str(refusal.value)
    assert "hunter22" not in str(refusal.value)
    assert "\n" not in str(refusal.value)


def test_a_password_is_shown_nowhere() -> None:
    for named in ("postgresql://u:hunter22@host/db", "postgresql://u@host/db?password=hunter22&sslmode=require"):
        text = shown(database_url(named))
        assert "hunter22" not in text
        assert "u:***@host" in text or "password=***" in text


def test_without_the_driver_one_line_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(MissingExtra, match=r"pip install 'curator-bench\[postgres\]'"):
        database_url("postgresql://u:p@host/db")


def test_a_server_that_cannot_be_reached_is_said_in_one_line(tmp_path: Path) -> None:
    with pytest.raises(BenchError) as refusal:
        open_for_writing(database_url(f"postgresql://u:hunter22@/db?host={tmp_path}"))
    assert "cannot be opened" in str(refusal.value)
    assert "hunter22" not in str(refusal.value)
    assert "\n" not in str(refusal.value)


@pytest.mark.parametrize("name", ODD_NAMES)
def test_any_name_a_file_can_have_will_do(tmp_path: Path, name: str) -> None:
    path = tmp_path / "folder that is not there" / name
    url = database_url(path)
    open_for_writing(url).close()
    assert [file.name for file in path.parent.iterdir()] == [name]
    with open_for_reading(url) or pytest.fail("not found again") as database, database.reading() as connection:
        assert connection.exec_driver_sql("SELECT count(*) FROM test_run").scalar() == 0


def test_a_name_that_is_no_text_will_do(tmp_path: Path) -> None:
    path = os.fsencode(tmp_path) + b"/\xff\xfe.db"
    open_for_writing(database_url(os.fsdecode(path))).close()
    assert os.listdir(os.fsencode(tmp_path)) == [b"\xff\xfe.db"]


def test_writers_and_readers_of_a_file_do_not_wait_for_each_other(sqlite_bench: Bench) -> None:
    database = sqlite_bench.open()
    assert pragma(Path(str(sqlite_bench.url.database)), "journal_mode") == "wal"
    with database.writing() as writer, database.reading() as reader:
        writer.exec_driver_sql("INSERT INTO bench_session (uid, name, results_directory) VALUES ('u', 'n', 'd')")
        assert reader.exec_driver_sql("SELECT count(*) FROM bench_session").scalar() == 0
    with database.reading() as reader:
        assert reader.exec_driver_sql("SELECT count(*) FROM bench_session").scalar() == 1


def test_what_was_committed_survives_a_power_loss(sqlite_bench: Bench) -> None:
    """That is what FULL (2) promises; with a write-ahead log, NORMAL (1) does not."""
    with sqlite_bench.open().writing() as connection:
        assert connection.exec_driver_sql("PRAGMA synchronous").scalar() == 2


def test_a_closed_file_is_whole_without_anything_beside_it(sqlite_bench: Bench) -> None:
    sqlite_bench.recorder(database := sqlite_bench.open()).start_run(sqlite_bench.start())
    database.close()
    path = Path(str(sqlite_bench.url.database))
    assert [file.name for file in path.parent.glob("*.db*")] == [path.name]


def test_a_file_system_without_write_ahead_log_will_do(tmp_path: Path) -> None:
    """SQLite's own dot-file locking stands for one: it has no shared memory either."""
    path = tmp_path / "benchmark.db"
    url = database_url(f"sqlite:///file:{path}?vfs=unix-dotfile&uri=true")
    with open_for_writing(url) as database, database.writing() as connection:
        assert connection.exec_driver_sql("PRAGMA journal_mode").scalar() == "delete"
        connection.exec_driver_sql("INSERT INTO bench_session (uid, name, results_directory) VALUES ('u', 'n', 'd')")
    assert pragma(path, "journal_mode") == "delete"


def test_a_file_on_a_network_gets_no_write_ahead_log(sqlite_bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("curator_bench.store.sqlite.is_on_network", lambda path: True)
    sqlite_bench.recorder().start_run(sqlite_bench.start())
    assert pragma(Path(str(sqlite_bench.url.database)), "journal_mode") == "delete"


def test_network_file_systems_are_told_from_local_ones(tmp_path: Path) -> None:
    mounts = tmp_path / "mounts"
    mounts.write_text(
        "overlay / overlay rw 0 0\n"
        "/dev/sda /data ext4 rw 0 0\n"
        "server:/x /data/shared nfs4 rw 0 0\n"
        "server:/y /data/with\\040blank cifs rw 0 0\n"
        "/dev/sdb /data/shared/local xfs rw 0 0\n"
        "tmpfs /data/over ext4 rw 0 0\n"
        "host:/z /data/over fuse.sshfs rw 0 0\n"
    )
    kinds = {
        "/x.db": "overlay",
        "/data/x.db": "ext4",
        "/data/shared/x.db": "nfs4",
        "/data/sharedx/x.db": "ext4",
        "/data/with blank/x.db": "cifs",
        "/data/shared/local/x.db": "xfs",
        "/data/over/x.db": "fuse.sshfs",
    }
    assert {path: file_system_of(Path(path), mounts) for path in kinds} == kinds
    assert is_on_network(Path("/data/shared/x.db"), mounts)
    assert not is_on_network(Path("/data/x.db"), mounts)
    assert not is_on_network(Path("/data/x.db"), tmp_path / "there is no list")


def test_a_row_cannot_belong_to_nothing(bench: Bench) -> None:
    with pytest.raises(IntegrityError), bench.open().writing() as connection:
        connection.exec_driver_sql("INSERT INTO metric (run, name, value) VALUES (4711, 'a', 1)")


def test_a_run_takes_what_belongs_to_it_along_when_it_is_removed(bench: Bench) -> None:
    recorder = bench.recorder(database := bench.open())
    recorder.finish_run(recorder.start_run(bench.start()), bench.end(metrics={"a": 1}, params={"b": 2}))
    with database.writing() as connection:
        connection.exec_driver_sql("DELETE FROM test_run")
    assert bench.rows("metric", "name") == bench.rows("param", "name") == []


def test_reading_makes_no_database(sqlite_bench: Bench) -> None:
    path = Path(str(sqlite_bench.url.database))
    assert open_for_reading(sqlite_bench.url) is None
    assert not path.exists()
    path.touch()
    assert open_for_reading(sqlite_bench.url) is None
    assert path.stat().st_size == 0


def test_reading_finds_nothing_on_a_server_where_nothing_was_recorded(bench: Bench) -> None:
    assert open_for_reading(bench.url) is None


def test_reading_changes_nothing(bench: Bench) -> None:
    bench.recorder().start_run(bench.start())
    database = open_for_reading(bench.url)
    assert database is not None
    with database, pytest.raises(Exception, match=r"readonly|read-only"), database.writing() as connection:
        connection.exec_driver_sql("DELETE FROM test_run")


READ_AS_NOBODY = """
import os, sys
from curator_bench.store.database import *

def count():
    with open_for_reading(database_url(sys.argv[1])) as database, database.reading() as connection:
        return connection.exec_driver_sql("SELECT count(*) FROM test_run").scalar()

count()
if os.geteuid() == 0:  # may write anywhere
    os.setgid(65534)
    os.setuid(65534)
assert not os.access(os.path.dirname(sys.argv[1]), os.W_OK)
print(count())
"""


def test_a_file_in_a_folder_one_cannot_write_to_is_read(sqlite_bench: Bench) -> None:
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        path = Path(folder, "benchmark.db")
        url = database_url(path)
        with open_for_writing(url) as database:
            sqlite_bench.recorder(database).start_run(sqlite_bench.start())
        Path(folder).chmod(0o555)
        command = [sys.executable, "-c", READ_AS_NOBODY, str(path)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        Path(folder).chmod(0o755)
    assert (done.stdout.strip(), done.stderr) == ("1", "")


def test_what_is_no_database_is_refused_and_left_alone(sqlite_bench: Bench) -> None:
    path = Path(str(sqlite_bench.url.database))
    text = "This is no database, but longer than the hundred bytes that make the head of one, so that it is read.\n" * 9
    path.write_text(text)
    for opening in (open_for_writing, open_for_reading):
        with pytest.raises(BenchError, match="cannot be opened: file is not a database"):
            opening(sqlite_bench.url)
    assert path.read_text() == text


def test_a_database_of_another_program_is_refused_and_left_alone(sqlite_bench: Bench) -> None:
    path = Path(str(sqlite_bench.url.database))
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE moz_places (id INTEGER)")
    before = path.read_bytes()
    for opening in (open_for_writing, open_for_reading):
        with pytest.raises(BenchError, match="holds other tables than those of curator-bench"):
            opening(sqlite_bench.url)
    assert path.read_bytes() == before


def test_a_folder_in_place_of_the_file_is_said_in_one_line(tmp_path: Path) -> None:
    with pytest.raises(BenchError, match=f"^{tmp_path} cannot be opened: .+$"):
        open_for_writing(database_url(tmp_path))


def test_a_writer_that_gets_no_turn_gives_up_in_time(sqlite_bench: Bench) -> None:
    database = sqlite_bench.open()
    with database.writing(), pytest.raises(OperationalError, match="locked"), database.writing(patience_s=0.1):
        pytest.fail("two wrote at once")
    with database.writing(patience_s=0.1):
        """The turn was given back."""


def test_waiting_for_a_turn_draws_no_number_from_the_generator_that_tests_seed(sqlite_bench: Bench) -> None:
    database = sqlite_bench.open()
    state = random.getstate()
    with database.writing(), pytest.raises(OperationalError, match="locked"), database.writing(patience_s=0.05):
        pytest.fail("two wrote at once")
    assert random.getstate() == state
