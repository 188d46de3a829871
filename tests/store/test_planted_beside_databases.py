"""What another user planted beside a database, or in its place, is not read: SQLite would believe it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from other_user import needs_a_second_user, run, shared_folder, start

from curator_bench.errors import BenchError
from curator_bench.store.database import database_url, open_for_reading, open_for_writing

pytestmark = needs_a_second_user

# A journal that is complete but for one thing: it restores the first page as it is, and names a super-journal, which
# SQLite removes afterwards, as it would after a power cut.
PLANTS_A_JOURNAL = """
import struct
database, named = sys.argv[1], sys.argv[2].encode()
with open(database, "rb") as file:
    content = file.read()
size = struct.unpack(">H", content[16:18])[0]
page, nonce, magic = content[:size], 12345, bytes.fromhex("d9d505f920a163d7")
checksum = (nonce + sum(page[at] for at in range(size - 200, 0, -200))) & 0xFFFFFFFF
head = magic + struct.pack(">IIIII", 1, nonce, len(content) // size, 512, size)
record = struct.pack(">I", 1) + page + struct.pack(">I", checksum)
end = struct.pack(">I", 0x40000000 // size + 1) + named + struct.pack(">II", len(named), sum(named)) + magic
with open(database + "-journal", "wb") as file:
    file.write(head.ljust(512, b"\\0") + record + end)
"""
COMES_BETWEEN = (
    PLANTS_A_JOURNAL.replace('open(database + "-journal", "wb")', 'open(database + ".stage", "wb")').replace(
        "with open(database, ", "with open(sys.argv[3], "
    )
    + """
print("ready", flush=True)
while not select.select([sys.stdin], [], [], 0)[0]:
    with contextlib.suppress(OSError):
        os.link(database + ".stage", database + "-journal")
        time.sleep(0.0003)
    with contextlib.suppress(OSError):
        os.unlink(database + "-journal")
        time.sleep(0.0003)
"""
)
PLANTS = """
act, *words = sys.argv[1:]
if act == "file":
    open(words[0], "w").close()
else:
    getattr(os, act)(*words)
"""


@pytest.fixture
def database() -> Iterator[Path]:
    """A recorded database in a folder in which everybody may create files, as earlier releases left it."""
    with shared_folder() as folder:
        open_for_writing(database_url(folder / "benchmark.db")).close()
        (folder / "benchmark.db-journal").unlink(missing_ok=True)
        yield folder / "benchmark.db"


def refusal(database: Path) -> str:
    with pytest.raises(BenchError) as reading:
        open_for_reading(database_url(database))
    with pytest.raises(BenchError) as writing:
        open_for_writing(database_url(database))
    assert str(reading.value) == str(writing.value)
    return str(reading.value)


@pytest.mark.parametrize("is_copied", [False, True], ids=["planted", "copied by the user"])
def test_a_planted_journal_removes_no_file_of_ours(database: Path, tmp_path: Path, is_copied: bool) -> None:
    precious = tmp_path / "id_rsa"
    precious.write_text("precious")
    run(PLANTS_A_JOURNAL, database, precious)
    journal = database.with_name("benchmark.db-journal")
    if is_copied:  # into a folder of ours, with all that stood beside the database
        database = tmp_path / "benchmark.db"
        database.with_name(journal.name).write_bytes(journal.read_bytes())

        database.write_bytes(journal.with_name("benchmark.db").read_bytes())
    why = "names another file" if is_copied else "belongs to another user (uid 65534)"
    assert f"{database}-journal {why}" in refusal(database)
    assert precious.read_text() == "precious"


@pytest.mark.parametrize("is_new", [False, True], ids=["a database", "a new database"])
def test_a_journal_that_comes_and_goes_removes_no_file_of_ours(database: Path, tmp_path: Path, is_new: bool) -> None:
    """It is not there when we look, and there when SQLite does. Without protection, 20 tries were enough."""
    precious = tmp_path / "id_rsa"
    precious.write_text("precious")
    model = database.with_name("model.db")
    model.write_bytes(database.read_bytes())
    with start(COMES_BETWEEN, database, precious, model) as other:
        assert other.stdout
        assert other.stdout.readline() == "ready\n"
        for _ in range(12 if is_new else 40):
            if is_new:
                for end in ("", "-journal", "-wal", "-shm"):
                    database.with_name(f"{database.name}{end}").unlink(missing_ok=True)
            with suppress(BenchError):
                open_for_writing(database_url(database)).close()
        output, _ = other.communicate("\n", timeout=60)
        assert other.returncode == 0, output
    assert precious.read_text() == "precious"


def test_the_name_of_a_journal_is_taken(database: Path) -> None:
    journal = database.with_name("benchmark.db-journal")
    open_for_writing(database_url(database)).close()
    assert journal.read_bytes() == b""
    assert journal.stat().st_mode == database.stat().st_mode
    with pytest.raises(AssertionError, match="Operation not permitted"):
        run(PLANTS, "unlink", journal)


@pytest.mark.parametrize("end", ["-journal", "-wal", "-shm"])
def test_files_of_another_user_beside_a_database_are_refused(database: Path, end: str) -> None:
    run(PLANTS, "file", f"{database}{end}")
    assert refusal(database) == f"{database} cannot be opened: {database}{end} belongs to another user (uid 65534)"


def test_a_link_of_another_user_leads_to_no_file_of_ours(database: Path, tmp_path: Path) -> None:
    empty = tmp_path / "authorized_keys"
    empty.touch()
    link = database.with_name("link.db")
    run(PLANTS, "symlink", empty, link)
    assert "link.db belongs to another user" in refusal(link)
    assert empty.read_bytes() == b""


def test_a_pipe_in_the_place_of_a_database_holds_nobody_up(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "benchmark.db")
    assert refusal(tmp_path / "benchmark.db").endswith("benchmark.db is a pipe, not a file")


def test_our_own_files_in_a_shared_folder_are_used(database: Path) -> None:
    with open_for_writing(database_url(database)) as first, first.reading():
        assert database.with_name("benchmark.db-wal").exists()
        second = open_for_reading(database_url(database))
        assert second is not None
        second.close()
