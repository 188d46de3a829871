"""The commands that look into a database and put databases together, run as their users run them."""

from __future__ import annotations

import csv
import json
import sqlite3
import subprocess
from contextlib import closing
from pathlib import Path

import pytest
import warm

DAYS = ("2026-01-21", "2026-01-22", "2026-01-23")


def bench(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    done = warm.run("curator-bench", *words, cwd=folder)
    assert "Traceback" not in done.stderr
    return done


def answer(folder: Path, *words: str) -> str:
    done = bench(folder, *words)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """With three runs of one entry, one of which has another metric too."""
    made = tmp_path_factory.mktemp("project")
    lines = [
        {"name": "a[1]", "path": "m.yaml", "metric": "rate", "value": n, "time": day} for n, day in enumerate(DAYS)
    ]
    lines.append({**lines[-1], "metric": "recall", "value": 0.9})
    made.joinpath("measured.jsonl").write_text("\n".join(map(json.dumps, lines)))
    assert "3 runs added" in answer(made, "import", "measured.jsonl")
    made.joinpath("letter.txt").write_text("Dear reader,\n")
    return made


def test_history_for_programs_has_every_value(folder: Path) -> None:
    (entry,) = json.loads(answer(folder, "history", "a[1]", "--json"))["entries"]
    assert [run["metrics"] for run in entry["runs"]] == [{"rate": 0.0}, {"rate": 1.0}, {"rate": 2.0, "recall": 0.9}]
    rows = list(csv.DictReader(answer(folder, "history", "m.yaml::a[1]", "--metric", "rate", "--csv").splitlines()))
    assert [(row["started_at"][:10], row["value"]) for row in rows] == list(
        zip(DAYS, ["0.0", "1.0", "2.0"], strict=True)
    )


def test_a_metric_is_named_with_or_without_its_option(folder: Path) -> None:
    values = answer(folder, "history", "a[1]", "recall")
    assert "0.9" in values
    assert values == answer(folder, "history", "a[1]", "--metric", "recall")
    assert values == answer(folder, "history", "a[1]", "recall", "--metric", "recall")
    two = bench(folder, "history", "a[1]", "rate", "--metric", "recall")
    assert two.returncode == 2
    assert "found the metrics rate and recall, expected one" in two.stderr


def test_bytes_have_a_unit_in_tables_and_none_for_programs(tmp_path: Path) -> None:
    lines = [
        {"name": "a", "path": "m.yaml", "metric": metric, "value": value, "time": DAYS[0]}
        for metric, value in (("peak_bytes", 2601017), ("left_bytes", 12), ("bytes_per_s", 2601017))
    ]
    tmp_path.joinpath("measured.jsonl").write_text("\n".join(map(json.dumps, lines)))
    answer(tmp_path, "import", "measured.jsonl")
    shown = {line.split()[0]: line for line in answer(tmp_path, "history", "a").splitlines() if line}
    assert "2.48 MiB" in shown["peak_bytes"]
    assert " 12 B " in shown["left_bytes"]
    assert " 2,601,017 " in shown["bytes_per_s"]
    assert "2.48 MiB" in answer(tmp_path, "history", "a", "peak_bytes")
    (entry,) = json.loads(answer(tmp_path, "history", "a", "--json"))["entries"]
    assert entry["runs"][0]["metrics"]["peak_bytes"] == 2601017


def test_history_is_as_long_as_one_says(folder: Path) -> None:
    (entry,) = json.loads(answer(folder, "history", "a", "--last", "2", "--json"))["entries"]
    assert [run["start"][:10] for run in entry["runs"]] == list(DAYS[1:])


def test_the_spread_of_repeats_and_the_exit_code_are_no_metrics_of_their_own(tmp_path: Path) -> None:
    values = {"speed": 5, "speed_min": 4, "speed_max": 6, "speed_std": 0.8, "speed_n": 3, "exit_code": 0}
    lines = [
        {"name": "a", "path": "m.yaml", "metric": metric, "value": value, "time": day, "session": f"of_{day}"}
        for day in DAYS
        for metric, value in values.items()
    ]
    tmp_path.joinpath("measured.jsonl").write_text("\n".join(map(json.dumps, lines)))
    answer(tmp_path, "import", "measured.jsonl", "--db", "benchmark.db")
    history = answer(tmp_path, "history", "a")
    assert [name for name in values if name in history.split()] == ["speed"], history
    compared = json.loads(answer(tmp_path, "compare", f"of_{DAYS[0]}", f"of_{DAYS[1]}", "--json"))
    assert [one["metric"] for one in compared] == ["speed"]
    answer(tmp_path, "report", "--out", "site")
    (page,) = tmp_path.joinpath("site", "entries").glob("*.html")
    assert 'data-metric="speed"' in page.read_text()
    assert not [name for name in values if name != "speed" and f'data-metric="{name}"' in page.read_text()]


def test_sessions_and_show_for_programs(folder: Path) -> None:
    sessions = json.loads(answer(folder, "sessions", "--json"))["sessions"]
    assert [session["name"] for session in sessions] == [f"imported__{day}" for day in DAYS]
    shown = json.loads(answer(folder, "show", sessions[0]["uid"], "--json"))
    assert [(run["name"], run["verdict"]) for run in shown["runs"]] == [("a[1]", "passed")]


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (("history", "b[1]"), "no runs of 'b[1]' are recorded; did you mean 'a[1]'?"),
        (("history", "a[1]", "--metric", "rat"), "a[1] has no metric 'rat'; did you mean 'rate'?"),
        (("history", "a[1]", "rat"), "a[1] has no metric 'rat'; did you mean 'rate'?"),
        (("show", "imported__2026-01-20"), "no session or commit 'imported__2026-01-20' is recorded; did you mean"),
        (
            ("sessions", "--db", "none.db"),
            "pytest --benchmark --benchmark-db",
        ),
        (("import", "none.jsonl"), "none.jsonl cannot be read: No such file or directory"),
        (("merge", "none.db", "--into", "new.db"), "none.db: there are no runs here yet"),
        (("merge", "letter.txt", "--into", "new.db"), "file is not a database"),
        (("merge", "mysql://host/db", "--into", "new.db"), "it does not know mysql://"),
        (("import", "measured.jsonl", "memory://nowhere/"), "not found: memory://nowhere/"),
        (("prune", "--keep-days", "1"), "there is no terminal to ask on, so add --yes"),
        (("export", "--format", "csv", "--out", "no/folder.csv"), "folder.csv cannot be written"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_what_cannot_be_done_is_one_line(folder: Path, words: tuple[str, ...], problem: str) -> None:
    done = bench(folder, *words)
    assert done.returncode == 1
    lines = [line for line in done.stderr.splitlines() if not line.startswith("Database: ")]
    assert [problem in line for line in lines] == [True]
    assert not folder.joinpath("new.db").exists()


def test_merging_twice_changes_nothing(folder: Path, tmp_path: Path) -> None:
    source = str(folder / "benchmark.db")
    assert "3 runs added, 0 completed, 0 there already" in answer(tmp_path, "merge", source, "--into", "all.db")
    assert "0 runs added, 0 completed, 3 there already" in answer(tmp_path, "merge", source, "--into", "all.db")
    with closing(sqlite3.connect(tmp_path / "all.db")) as connection:
        assert connection.execute("select count(*) from metric").fetchone() == (4,)


def test_a_history_in_a_store_is_imported_and_merged_as_a_whole(folder: Path, tmp_path: Path) -> None:
    store = tmp_path / "bucket" / "history"
    store.mkdir(parents=True)
    answer(folder, "export", "--format", "jsonl", "--out", "runs.jsonl")
    for name, line in zip(("a", "deep/b", "c"), (folder / "runs.jsonl").read_text().splitlines(), strict=True):
        path = store / f"{name}.jsonl"
        path.parent.mkdir(exist_ok=True)
        path.write_text(line + "\n")
    (store / "notes.txt").write_text("not a run")
    url = store.as_uri()
    assert f"{url}/ (3 files): 3 runs added" in answer(tmp_path, "import", f"{url}/")
    assert f"{url}/: 0 runs added, 0 completed, 3 there already" in answer(
        tmp_path, "merge", f"{url}/", "--into", "benchmark.db"
    )
    assert "1 run added" in answer(tmp_path, "merge", f"{url}/a.jsonl", "--into", "new.db")
    said = answer(tmp_path, "merge", str(store / "a.jsonl"), f"{url}/deep/b.jsonl", "--into", "2.db")
    assert said.count("1 run added") == 2
    database = (folder / "benchmark.db").as_uri()
    assert "2 runs added, 0 completed, 1 there already" in answer(tmp_path, "merge", database, "--into", "new.db")
    assert f"{database} is a database of curator-bench" in bench(tmp_path, "import", database).stderr


def test_a_mistake_in_a_file_of_a_store_says_in_which(folder: Path, tmp_path: Path) -> None:
    answer(folder, "export", "--format", "jsonl", "--out", str(tmp_path / "runs.jsonl"))
    with (tmp_path / "runs.jsonl").open("a") as file:
        file.write("half a li")
    url = (tmp_path / "runs.jsonl").as_uri()
    done = bench(tmp_path, "merge", url, "--into", "new.db")
    assert done.returncode == 1
    assert f"{url}:4: no JSON" in done.stderr
    assert "3 runs added" in done.stdout


def test_what_is_old_is_removed_when_one_agrees(folder: Path, tmp_path: Path) -> None:
    answer(tmp_path, "merge", str(folder / "benchmark.db"), "--into", "benchmark.db")
    said = answer(tmp_path, "prune", "--keep-days", "0", "--dry-run")
    assert said.startswith("3 runs of 1 entry from 2026-01-21 to ")
    assert "3 runs and 3 sessions removed" in answer(tmp_path, "prune", "--keep-days", "0", "--yes")
    assert "nothing is older than" in answer(tmp_path, "prune", "--keep-days", "0", "--yes")


def test_what_was_exported_is_taken_in_once(folder: Path, tmp_path: Path) -> None:
    answer(folder, "export", "--format", "jsonl", "--out", str(tmp_path / "runs.jsonl"))
    assert "3 runs added" in answer(tmp_path, "import", "runs.jsonl")
    assert "0 runs added, 0 completed, 3 there already" in answer(tmp_path, "import", "runs.jsonl")
    table = list(csv.DictReader(answer(tmp_path, "export", "--format", "csv").splitlines()))
    assert sorted((row["name"], row["metric"]) for row in table) == [("a[1]", "rate")] * 3 + [("a[1]", "recall")]
