"""`--branch`, `--machine` and `--since` mean the same in every command that reads; names of git mean commits."""

from __future__ import annotations

import csv
import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
import pytest
import warm
from cli.nights import History, noisy

from curator_bench.cli import group

SCOPED = {"accept", "calibrate", "compare", "export", "history", "regressions", "sessions"}
OF_ONE_SESSION = {"show", "pivot", "report", "resend"}
THAT_CHOOSE_ON_THE_PAGE = {"serve"}
OF_NO_HISTORY = {"comment", "init", "matrix", "command", "doctor", "paths", "run"}
THAT_MEASURE = {"bisect", "bisect-step", "ab", "nightly", "watch", "jobs"}
THAT_COPY_OR_REMOVE = {"merge", "import", "prune", "record", "publish"}
OF_TWO_SIDES = {"why"}
"""They choose a branch and a machine like the others; `--since` divides the runs into two sides."""
NAMES = {"branch", "machine", "since"}


def options(name: str) -> dict[str, click.Option]:
    command = group.get_command(click.Context(group), name)
    assert command is not None
    return {str(one.name): one for one in command.params if isinstance(one, click.Option) and one.name in NAMES}


def test_every_command_has_all_three_or_is_listed_and_they_are_described_alike() -> None:
    known = set(group.list_commands(click.Context(group)))
    others = OF_ONE_SESSION | THAT_CHOOSE_ON_THE_PAGE | OF_NO_HISTORY | THAT_MEASURE | THAT_COPY_OR_REMOVE
    assert known == SCOPED | OF_TWO_SIDES | others
    for name in known:
        assert set(options(name)) == (set() if name in others else NAMES), name
    for option in NAMES:
        alike = SCOPED if option == "since" else SCOPED | OF_TWO_SIDES
        assert len({(options(name)[option].help, options(name)[option].type.name) for name in alike}) == 1


def test_the_manual_lists_the_commands_that_have_them() -> None:
    manual = Path(__file__).parents[2].joinpath("docs", "history.md").read_text()
    (line,) = [line for line in manual.splitlines() if line.startswith("| `--branch")]
    assert all(f"`{name}`" in line for name in SCOPED)


@pytest.fixture
def history(tmp_path: Path) -> History:
    """Two machines on two branches, 30 nights each; each pair got slower by a size of its own on night 15."""
    made = History(tmp_path)
    for place, (machine, branch, level) in enumerate(
        [("epyc", "main", 1.2), ("arm", "main", 1.4), ("epyc", "topic", 1.6), ("arm", "topic", 1.8)]
    ):
        values = noisy((1.0, 15), (level, 15), seed=place)
        made.nights({("sort", "time_s"): values}, machine=machine, branch=branch, session=f"{branch}-{machine}")
    return made


def regressions(history: History, *words: str) -> set[int]:
    return {round(10 * one["change"]) for one in history.regressions(*words)}


def of_history(history: History, *words: str) -> set[str]:
    (entry,) = json.loads(history.ask("history", "sort", "--json", *words).stdout)["entries"]
    return {run["machine_id"] + run["branch"] for run in entry["runs"]}


def of_export(history: History, *words: str) -> set[str]:
    rows = csv.DictReader(history.ask("export", "--format", "csv", *words).stdout.splitlines())
    return {row["machine_id"] + row["session_branch"] for row in rows}


READERS: list[Callable[..., set[str]]] = [of_history, of_export]


@pytest.mark.parametrize("read", READERS)
def test_they_choose_the_same_runs_everywhere(history: History, read: Callable[..., set[str]]) -> None:
    assert read(history) == {"epycmain", "armmain", "epyctopic", "armtopic"}
    assert read(history, "--branch", "main", "--machine", "arm") == {"armmain"}
    assert read(history, "--branch", "topic") == {"epyctopic", "armtopic"}


def test_findings_are_of_the_branch_and_the_machine(history: History) -> None:
    assert regressions(history, "--branch", "main", "--machine", "arm") == {4}
    assert regressions(history, "--branch", "topic", "--machine", "epyc") == {6}
    assert regressions(history, "--branch", "topic", "--since", "2026-01-25") == set()


def test_sessions_are_those_with_such_a_run_and_count_only_them(history: History) -> None:
    every, main = (history.ask("sessions", "--json", "--last", "999", *words) for words in ((), ("--branch", "main")))
    one = history.ask(
        "sessions", "--json", "--last", "999", "--branch", "main", "--machine", "arm", "--since", "2026-01-29"
    )
    counts = [sum(session["runs"] for session in json.loads(done.stdout)["sessions"]) for done in (every, main, one)]
    assert counts == [120, 60, 2]


def test_accept_and_compare_are_of_the_machine(history: History) -> None:
    (one,) = history.regressions("--branch", "main", "--machine", "arm")
    words = ("accept", "sort", "time_s", "--why", "x", "--branch", "main", "--machine", "arm")
    assert f"{one['change']:+.1%}" in history.ask(*words).output
    compared = history.ask("compare", "main", "topic", "--machine", "arm", "--json")
    assert {row["machine"] for row in json.loads(compared.stdout)} == {"arm"}
    assert (
        "no run on a machine 'nowhere' is recorded"
        in history.ask("compare", "main", "topic", "--machine", "nowhere").output
    )


class Repository:
    """A git repository with five commits, of which the second and the fifth were measured."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.git("init", "--quiet", "--initial-branch=main")
        for number in range(1, 6):
            self.git("commit", "--quiet", "--allow-empty", "-m", f"change {number}")
        self.git("tag", "v2", "HEAD~3")
        lines = [
            self.line(commit, value, day)
            for commit, day, values in (("HEAD~3", 1, noisy((1.0, 8))), ("HEAD", 2, noisy((1.3, 8), seed=1)))
            for value in values
        ]
        lines = [{**line, "time": f"{line['time']}T{place:02d}:00:00"} for place, line in enumerate(lines)]
        folder.joinpath("lines.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
        assert self.say("import", "lines.jsonl").returncode == 0

    def line(self, commit: str, value: float, day: int) -> dict[str, Any]:
        of = {"commit": self.sha(commit), "time": f"2026-01-0{day}"}
        return {"name": "sort", "metric": "time_s", "value": value, **of}

    def git(self, *words: str) -> str:
        named = ("-c", "user.name=A", "-c", "user.email=a@example.org")
        done = subprocess.run(["git", *named, *words], cwd=self.folder, capture_output=True, text=True, check=True)
        return done.stdout.strip()

    def sha(self, name: str) -> str:
        return self.git("rev-parse", name)

    def say(self, *words: str) -> subprocess.CompletedProcess[str]:
        return warm.run("curator-bench", *words, "--db", "benchmark.db", cwd=self.folder)


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    return Repository(tmp_path)


def test_names_of_git_mean_the_sessions_of_their_commit(repository: Repository) -> None:
    short = repository.sha("HEAD~3")[:4]
    for before in ("HEAD~3", "v2", short):
        compared = repository.say("compare", before, "HEAD", "--json")
        ((row),) = json.loads(compared.stdout)
        assert (row["runs"], row["verdict"]) == ([8, 8], "regression"), before
        shown = json.loads(repository.say("show", before, "--json").stdout)
        assert shown["commit"] == repository.sha("HEAD~3")
        assert json.loads(repository.say("report", "--format", "json", "--session", before).stdout)["session"]
    (entry,) = json.loads(repository.say("history", "sort", "--since", "HEAD", "--json").stdout)["entries"]
    assert {run["commit"] for run in entry["runs"]} == {repository.sha("HEAD")}
    assert len(json.loads(repository.say("regressions", "--json", "--since", "v2").stdout)) == 1


@pytest.mark.parametrize(
    "words", [("compare", "HEAD~1", "HEAD"), ("show", "HEAD~1"), ("regressions", "--since", "HEAD~1")]
)
def test_a_commit_that_was_not_measured_names_the_nearest_that_were(
    repository: Repository, words: tuple[str, ...]
) -> None:
    done = repository.say(*words)
    before, this, after = (repository.sha(name)[:8] for name in ("HEAD~3", "HEAD~1", "HEAD"))
    near = f"the nearest that were: {before} (2 commits before), {after} (1 commit after)"
    assert done.stderr.strip().endswith(f"nothing was measured at HEAD~1 ({this}); {near}")
    assert done.returncode in (1, 2)


def test_what_neither_the_database_nor_git_knows_is_said_as_before(repository: Repository) -> None:
    assert "no session, branch or commit 'nonsense' is recorded" in repository.say("compare", "nonsense", "HEAD").stderr
    assert "no session or commit 'nonsense' is recorded" in repository.say("show", "nonsense").stderr
    assert (
        "--since: found 'nonsense', expected a day" in repository.say("history", "sort", "--since", "nonsense").stderr
    )
