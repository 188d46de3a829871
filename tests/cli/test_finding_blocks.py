"""Findings on the command line: what has one cause is told, accepted and exported as one."""

from __future__ import annotations

import json
import re
import sqlite3
import subprocess
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path

import pytest
from cli.nights import FIRST, History, commit, noisy


@pytest.fixture
def history(tmp_path: Path) -> History:
    return History(tmp_path)


def names_of(history: History, *words: object) -> dict[tuple[str, str], str]:
    """The finding of each entry and metric."""
    return {(one["entry"], one["metric"]): one["finding"] for one in history.regressions(*words)}


def heads(output: str) -> list[str]:
    return [line for line in output.splitlines() if re.match(r"(regression|improvement) .-", line)]


def test_what_became_slower_between_the_same_commits_is_one_finding(history: History) -> None:
    commits = [f"{number:02d}{'c' * 38}" for number in range(70)]
    history.nights(
        {
            ("sort", "time_s"): noisy((1.0, 40), (1.3, 30)),
            ("sort", "peak_bytes"): noisy((1e9, 40), (1.1e9, 30), seed=1),
            ("load", "time_s"): noisy((2.0, 40), (2.2, 30), seed=2),
            ("join", "time_s"): noisy((3.0, 20), (3.6, 50), seed=3),
            ("scan", "rows_per_s"): noisy((3.0, 40), (3.6, 30), seed=4),
        },
        commits=commits,
    )
    names = names_of(history)
    assert names["sort", "time_s"] == names["sort", "peak_bytes"] == names["load", "time_s"]
    assert len(set(names.values())) == 3
    output = history.ask("regressions").output
    first, second, third = heads(output)
    assert first.startswith(f"regression {names['join', 'time_s']} (open) since 2026-01-21")
    assert sorted([second.split()[0], third.split()[0]]) == ["improvement", "regression"]
    (both,) = (head for head in (second, third) if head.startswith("regression"))
    assert re.search(r"sort time_s \+\d+\.\d%, with 1 other entry and 1 other metric$", both)
    assert output.count("commits 39cccccccccc..40cccccccccc") == 2
    assert "2 regressions, 1 improvement, 0 drifts in 5 series." in output


def test_machines_that_measured_different_commits_find_one_cause(history: History) -> None:
    """Every commit is measured by one machine of three. The slow commit is the same for all."""
    commits = [commit(number) for number in range(150)]
    for machine in range(3):
        own = slice(machine, None, 3)
        values = noisy((1.0 + machine, 80), (1.4 + 1.4 * machine, 70), seed=machine)[own]
        lines = [
            {"name": "sort", "metric": "time_s", "value": value, "commit": sha, "machine": f"m{machine}"}
            | {"time": (FIRST + timedelta(hours=8 * number)).isoformat()}
            for value, sha, number in zip(values, commits[own], range(150)[own], strict=True)
        ]
        file = history.folder / "lines.jsonl"
        file.write_text("".join(json.dumps(line) + "\n" for line in lines))
        assert history.say("import", file, "--db", history.db).exit_code == 0
    found = history.regressions()
    assert {one["machine"] for one in found} == {"m0", "m1", "m2"}
    assert len({one["finding"] for one in found}) == 1
    assert (found[0]["commits"]["before"], found[0]["commits"]["after"]) == (commit(79), commit(80))


def test_a_finding_is_accepted_as_one_and_others_stay_open(history: History) -> None:
    history.nights(
        {
            ("sort", "time_s"): noisy((1.0, 40), (1.3, 20), (1.6, 20)),
            ("load", "time_s"): noisy((2.0, 40), (2.4, 40), seed=2),
        }
    )
    first, second = dict.fromkeys(one["finding"] for one in history.regressions())
    said = history.ask("accept", first, "--why", "both check their input now")
    assert said.exit_code == 0, said.output
    assert sorted(re.findall(r"accepted: (\w+ \w+)", said.output)) == ["load time_s", "sort time_s"]
    assert [one["finding"] for one in history.regressions()] == [second]
    assert history.ask("accept", second, "--why", "and sort twice").exit_code == 0
    assert history.ask("regressions").exit_code == 0
    again = history.ask("accept", second, "--why", "again")
    assert "is not open: accepted" in str(again.exception)


def test_a_name_holds_when_more_runs_come(history: History) -> None:
    """Also the name of three slow runs, when later ones show that it began a run earlier or later."""
    values = noisy((1.0, 60), (1.12, 40), spread=0.03, seed=12)
    named = set()
    for runs in range(66, 101, 4):
        told = History(history.folder)
        told.db = history.folder / f"{runs}.db"
        told.nights({("sort", "time_s"): values[:runs]})
        found = told.regressions()
        named |= {one["finding"] for one in found}
    assert named
    for name in named:
        history.db = history.folder / "last.db"
        history.db.write_bytes(told.db.read_bytes())
        accepted = history.ask("accept", name, "--why", "meant")
        assert accepted.exit_code == 0, accepted.output
        assert history.ask("regressions").exit_code == 0


def test_a_finding_nobody_knows_names_the_near_ones(history: History) -> None:
    history.nights({("sort", "time_s"): noisy((1.0, 40), (1.3, 20))})
    (one,) = history.regressions()
    near = f"{one['finding'][:-1]}x"
    assert f"did you mean '{one['finding']}'" in str(history.ask("accept", near, "--why", "x").exception)
    alone = history.ask("accept", "sort", "--why", "x")
    assert "no finding is named 'sort'" in str(alone.exception)


def test_what_requirements_name_stands_first(history: History, tmp_path: Path) -> None:
    history.nights(
        {
            ("sort", "time_s"): noisy((1.0, 40), (1.1, 30)),
            ("sort", "other_s"): noisy((1.0, 40), (1.9, 30), seed=1),
        }
    )
    with sqlite3.connect(history.db) as database:
        last = "select max(id), 0, 'time_s', 'max' from test_run where name = 'sort'"
        database.execute(f"insert into requirement (run, position, metric, bound) {last}")
    (head,) = heads(history.ask("regressions").output)
    assert "sort time_s" in head


def git(repo: Path, *words: str) -> str:
    identity = ["-c", "user.name=Ada", "-c", "user.email=a@t", "-c", "commit.gpgsign=false"]
    done = subprocess.run(["git", *identity, *words], cwd=repo, capture_output=True, text=True, check=True)
    return done.stdout.strip()


def commits_in(repo: Path, count: int) -> Sequence[str]:
    repo.mkdir()
    git(repo, "init", "-q")
    for number in range(count):
        git(repo, "commit", "-q", "--allow-empty", "-m", f"change {number}")
    return git(repo, "log", "--reverse", "--format=%H").splitlines()


def test_json_names_finding_state_place_and_commits(history: History, tmp_path: Path) -> None:
    commits = commits_in(tmp_path / "repo", 60)
    history.nights(
        {("sort", "time_s"): noisy((1.0, 40), (1.5, 20)), ("load", "time_s"): noisy((1.0, 40), (1.5, 20), seed=1)},
        commits=commits,
        machine="m1",
    )
    first, second = history.regressions("--repo", tmp_path / "repo")
    assert first["finding"] == second["finding"]
    assert (first["state"], first["path"], first["machine"], first["subjects"]) == ("open", "", "m1", [])
    assert first["before"] == pytest.approx(1.0, abs=0.05)
    assert first["after"] == pytest.approx(1.5, abs=0.05)
    assert first["since"]["commit"] == first["first_after"]["commit"] == commits[40]
    assert first["last_before"]["commit"] == commits[39]
    (log,) = first["commits"]["log"]
    assert (log["sha"], log["author"], log["subject"]) == (commits[40], "Ada", "change 40")
    output = history.ask("regressions", "--repo", tmp_path / "repo").output
    assert output.count("Ada: change 40") == 1


def documented(title: str) -> set[str]:
    page = (Path(__file__).parents[2] / "docs/files.md").read_text()
    (section,) = re.findall(rf"^### {re.escape(title)}\n(.*?)^##", page, re.MULTILINE | re.DOTALL)
    return {
        key for first in re.findall(r"^\| (`.*?) \|", section, re.MULTILINE) for key in re.findall(r"`(\w+)`", first)
    }


def test_the_manual_names_all_keys_of_json(history: History) -> None:
    history.nights({("sort", "time_s"): noisy((1.0, 40), (1.3, 40))}, session="a")
    history.nights({("sort", "time_s"): noisy((1.3, 10), seed=1)}, session="b")
    assert {frozenset(one) for one in history.regressions()} == {frozenset(documented("Regressions as JSON"))}
    (compared,) = json.loads(history.ask("compare", "a", "b", "--json").stdout)
    assert set(compared) == documented("Comparisons as JSON")


def test_a_model_much_slower_than_the_others_of_its_name_is_told(history: History) -> None:
    values = [value * (1.25 if night % 3 == 0 else 1.0) for night, value in enumerate(noisy((1.0, 60)))]
    history.nights({("sort", "time_s"): values, ("load", "time_s"): noisy((2.0, 60), seed=1)}, machine="ci")
    hint = "Machine ci is not of one kind: runs on slow-host are"
    for words in (("regressions",), ("history", "sort")):
        assert hint not in history.ask(*words).output
    with sqlite3.connect(history.db) as database:
        hosts = [
            ("slow-host" if night % 3 == 0 else "fast-host", str(FIRST + timedelta(days=night))[:19])
            for night in range(60)
        ]
        database.executemany("update test_run set host = ? where start like ? || '%' and name = 'sort'", hosts)
    for words in (("regressions",), ("history", "sort")):
        assert re.search(rf"{hint} 2\d% slower than the others of this name", history.ask(*words).output)


def test_one_machine_can_be_looked_at_by_itself(history: History) -> None:
    history.nights({("sort", "time_s"): noisy((1.0, 40), (1.3, 20))}, machine="old")
    history.nights({("sort", "time_s"): noisy((1.0, 40), (1.5, 20), seed=1)}, machine="new")
    assert {one["machine"] for one in history.regressions()} == {"old", "new"}
    (one,) = history.regressions("--machine", "new")
    assert (one["machine"], one["finding"]) == ("new", history.regressions()[0]["finding"])
    unknown = history.ask("regressions", "--machine", "olt")
    assert (unknown.exit_code, "no run on a machine 'olt' is recorded; did you mean 'old'" in unknown.output) == (
        2,
        True,
    )
