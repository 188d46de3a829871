"""The record of all jobs: nothing of what they add at the same moment is lost, wherever the record is."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import pytest
from other_user import needs_a_second_user, run, shared_folder
from sharing.shared_records import command, database, recorded
from store.postgres_server import PostgresServer, start_server

from curator_bench.sharing.places import OtherWasFaster, place_of


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresServer]:
    started = start_server()
    yield started
    started.close()


def added_at_once(record: str, folder: Path, *, jobs: int = 2, variables: dict[str, str] | None = None) -> set[str]:
    """As many jobs at the same moment, each with a database of its own; what the record then holds."""
    databases = [database(folder, f"job{number}") for number in range(jobs)]
    with ThreadPoolExecutor(jobs) as pool:
        ended = list(
            pool.map(lambda one: command("record", "add", record, one, cwd=folder, **(variables or {})), databases)
        )
    assert [one.returncode for one in ended] == [0] * jobs, [one.stderr for one in ended]
    got = command("record", "get", record, "got.db", cwd=folder, **(variables or {}))
    assert (got.returncode, got.stdout, got.stderr) == (0, "", "")
    return recorded(folder / "got.db")


def test_jobs_at_once_lose_nothing_on_a_disk(tmp_path: Path) -> None:
    assert added_at_once(str(tmp_path / "shared" / "record.db"), tmp_path, jobs=3) == {"job0", "job1", "job2"}


def test_jobs_at_once_lose_nothing_where_nothing_can_be_locked(tmp_path: Path) -> None:
    pytest.importorskip("fsspec")
    record = f"local://{tmp_path / 'shared' / 'record.db'}"
    assert added_at_once(record, tmp_path, jobs=4) == {"job0", "job1", "job2", "job3"}


def test_parts_do_not_become_more_with_each_job(tmp_path: Path) -> None:
    pytest.importorskip("fsspec")
    record = tmp_path / "shared" / "record.db"
    record.parent.mkdir()
    database(tmp_path, "before").rename(record)
    record.with_name("record.db.parts").mkdir()
    killed = record.with_name("record.db.parts") / "part-of-a-killed-job.db.unfinished"
    killed.write_bytes(b"half a da")
    for name in ("one", "two", "three"):
        assert command("record", "add", f"local://{record}", database(tmp_path, name), cwd=tmp_path).returncode == 0
    assert command("record", "get", f"local://{record}", "got.db", cwd=tmp_path).returncode == 0
    assert recorded(tmp_path / "got.db") == {"before", "one", "two", "three"}
    assert len(list(killed.parent.glob("*.db"))) == 1
    assert recorded(record) == {"before"}


@pytest.mark.slow
def test_jobs_at_once_lose_nothing_on_a_server(tmp_path: Path, server: PostgresServer) -> None:
    assert added_at_once(server.new_database(), tmp_path) == {"job0", "job1"}


@pytest.fixture
def bucket(s3: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    for name, value in s3.items():
        monkeypatch.setenv(name, value)
    pytest.importorskip("boto3").client("s3").create_bucket(Bucket="records")
    return s3


@pytest.mark.slow
def test_jobs_at_once_lose_nothing_on_s3(tmp_path: Path, bucket: dict[str, str]) -> None:
    assert added_at_once("s3://records/all/record.db", tmp_path, variables=bucket) == {"job0", "job1"}


@pytest.mark.slow
def test_what_was_fetched_before_another_job_stored_is_not_stored(tmp_path: Path, bucket: dict[str, str]) -> None:
    place, file = place_of("s3://records/record.db"), tmp_path / "file"
    before = place.fetch(tmp_path)
    for content in (b"first", b"second"):
        file.write_bytes(content)
        if content == b"first":
            place.store(file, before.version)
    with pytest.raises(OtherWasFaster):
        place.store(file, before.version)
    now = place.fetch(tmp_path)
    assert now.files[0].read_bytes() == b"first"
    place.store(file, now.version)
    with pytest.raises(OtherWasFaster):
        place.store(file, now.version)


def test_an_export_is_added_like_a_database(tmp_path: Path) -> None:
    exported = ("export", "--db", database(tmp_path, "job"), "--format", "jsonl", "--out", "out.jsonl")
    command(*exported, cwd=tmp_path).check_returncode()
    assert command("record", "add", "record.db", "out.jsonl", cwd=tmp_path).returncode == 0
    assert recorded(tmp_path / "record.db") == {"job"}


def test_a_record_on_disk_may_be_written_by_others_while_it_is_got_and_added_to(tmp_path: Path) -> None:
    """As a job killed while it recorded straight into it leaves it: with a log beside it that nobody has taken in."""
    record = database(tmp_path, "first")
    with closing(sqlite3.connect(record)) as other:
        assert other.execute("PRAGMA journal_mode").fetchone() == ("wal",)
        other.execute("UPDATE test_run SET name = 'renamed'")
        other.commit()
        assert command("record", "add", record, database(tmp_path, "second"), cwd=tmp_path).returncode == 0
        assert command("record", "get", record, "got.db", cwd=tmp_path).returncode == 0
        assert recorded(tmp_path / "got.db") == {"renamed", "second"}
    assert not list(tmp_path.glob("got.db-*"))


def test_a_file_that_is_got_replaces_an_older_one_also_if_there_is_no_record(tmp_path: Path) -> None:
    older, record = database(tmp_path, "older"), database(tmp_path, "record")
    older.with_name("older.db-wal").write_bytes(b"of the older one")
    assert command("record", "get", record, older, cwd=tmp_path).returncode == 0
    assert recorded(older) == {"record"}
    got = command("record", "get", "none.db", older, cwd=tmp_path)
    assert (got.returncode, got.stderr) == (0, "there is no record at none.db yet\n")
    assert not older.exists()


def test_what_is_no_record_is_told_in_a_line(tmp_path: Path) -> None:
    job, record = database(tmp_path, "job"), tmp_path / "record.db"
    record.write_text("no database")
    for words in (("add", "record.db", job), ("get", "record.db", "got.db")):
        done = command("record", *words, cwd=tmp_path)
        assert (done.returncode, done.stderr) == (1, f"{record} cannot be opened: file is not a database\n")
    done = command("record", "add", f"local://{tmp_path}/parts.db", "nosuch.db", cwd=tmp_path)
    assert (done.returncode, done.stderr.count("\n")) == (1, 1)
    done = command("record", "add", "s4://me:planted@bucket/record.db", "job.db", cwd=tmp_path)
    assert (done.returncode, done.stderr.count("\n"), "planted" in done.stderr) == (1, 1, False)
    assert "fsspec knows; it does not know s4://" in done.stderr


def test_a_stored_file_that_is_no_record_is_named_as_the_user_knows_it(tmp_path: Path) -> None:
    pytest.importorskip("fsspec")
    record = f"local://{tmp_path / 'record.db'}"
    (tmp_path / "record.db").write_text("no database")
    done = command("record", "get", record, "got.db", cwd=tmp_path)
    assert (done.returncode, done.stderr) == (1, f"{record} cannot be opened: file is not a database\n")


@needs_a_second_user
def test_no_file_is_read_or_written_where_another_user_has_put_one(tmp_path: Path) -> None:
    job = database(tmp_path, "job")
    with shared_folder() as shared:
        run("import os, sys; os.mkdir(sys.argv[1]); os.chmod(sys.argv[1], 0o777)", shared / "theirs")
        run("open(sys.argv[1], 'w').close()", shared / "record.db")
        for planted in (shared / "record.db", shared / "theirs" / "record.db"):
            for words in (("add", planted, job), ("get", planted, "got.db"), ("get", job, planted)):
                done = command("record", *words, cwd=tmp_path)
                assert done.returncode == 1, words
                assert "belongs to another user" in done.stderr
        assert (shared / "record.db").read_bytes() == b""
        assert not list((shared / "theirs").iterdir())


def test_a_dashboard_without_a_record_says_so(tmp_path: Path) -> None:
    done = command("publish", "none.db", "site", cwd=tmp_path)
    assert (done.returncode, "there is no record at none.db yet" in done.stderr) == (1, True)


def test_options_after_dashes_are_those_of_report(tmp_path: Path) -> None:
    done = command("publish", database(tmp_path, "job"), "site", "--", "--title", "Of the lab", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "Of the lab" in (tmp_path / "site" / "index.html").read_text()
    done = command("publish", "job.db", "site", "--", "--tilte", "x", cwd=tmp_path)
    assert (done.returncode, "--tilte" in done.stderr) == (2, True)
