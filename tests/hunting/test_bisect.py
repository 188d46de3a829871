"""`curator-bench bisect` as its users run it: it names the commit, and leaves the checkout as it was."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
import tempfile
from contextlib import suppress
from pathlib import Path

import psutil
import pytest
import warm
from hung_processes import outputs_of
from scratch_repository import ScratchRepository, environment, make_repository

COMMAND = Path(sys.executable).with_name("curator-bench")
ASKED = ("--entry", "work", "--metric", "work_time_s")


def start(repository: ScratchRepository, *words: str, bad: str = "c4") -> subprocess.Popen[str]:
    return subprocess.Popen(
        [COMMAND, "bisect", "--good", "c1", "--bad", bad, *ASKED, *words],
        cwd=repository.folder,
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def bisect(repository: ScratchRepository, *words: str, bad: str = "c4") -> tuple[int, str, str]:
    words = ("bisect", "--good", "c1", "--bad", bad, *ASKED, *words)
    done = warm.run("curator-bench", *words, cwd=repository.folder, env=environment())
    assert "Traceback" not in done.stderr
    return done.returncode, done.stdout, done.stderr


def stop_while_measuring(process: subprocess.Popen[str], number: signal.Signals) -> int:
    """Stops it in its second measurement: the first is in the database."""
    assert process.stderr
    measuring = (line for line in process.stderr if line.startswith("measuring"))
    next(measuring)
    next(measuring)
    process.send_signal(number)
    outputs_of(process, 120)
    return process.returncode


@pytest.fixture
def repository(tmp_path: Path) -> ScratchRepository:
    """Its third commit takes twice as long."""
    return make_repository(tmp_path / "project", seed=1, slower_at=3, by=1.0, commits=4)


@pytest.mark.slow
def test_an_interrupted_hunt_goes_on_where_it_was_and_names_the_commit(repository: ScratchRepository) -> None:
    repository.git("checkout", "--quiet", "--detach", "c2")
    before = repository.stands()
    assert stop_while_measuring(start(repository), signal.SIGINT) == 130
    assert repository.stands() == before
    code, output, errors = bisect(repository)
    assert (code, repository.stands()) == (0, before)
    assert f"The first bad commit is {repository.git('rev-parse', 'c3')}" in output
    first = repository.git("rev-parse", "c1")[:12]
    assert f"measuring {first} Change 1: run 1 " not in errors
    code, again, errors = bisect(repository)
    assert (code, again, "measuring" in errors) == (0, output, False)


@pytest.mark.slow
def test_when_the_budget_is_spent_the_commits_that_are_left_are_named(repository: ScratchRepository) -> None:
    before, stopped = repository.stands(), start(repository)
    assert stopped.stderr
    next(line for line in stopped.stderr if line.endswith("bisecting\n"))
    stopped.send_signal(signal.SIGINT)
    outputs_of(stopped, 120)
    code, output, errors = bisect(repository, "--budget", "0.1s")
    assert (code, repository.stands()) == (4, before), errors
    left = output.split("The first bad commit is one of these:\n")[1].splitlines()
    assert [line.split()[0] for line in left[:3]] == [repository.git("rev-parse", f"c{n}")[:12] for n in (2, 3, 4)]
    assert left[3:] == ["The time of --budget is over. The same command continues."]


def folders_of(pid: int) -> list[Path]:
    """The temporary folders whose note names this process."""
    found = []
    for note in Path(tempfile.gettempdir()).glob("cb-*/owner.json"):
        with suppress(OSError, ValueError):  # of another process, which has just ended
            found += [note.parent] if json.loads(note.read_text())["pid"] == pid else []
    return found


def kill_while_pytest_runs(process: subprocess.Popen[str]) -> tuple[list[psutil.Process], list[Path]]:
    """Kill it in its second measurement. Return the processes it had started, and its temporary folders."""
    assert process.stderr
    measuring = (line for line in process.stderr if line.startswith("measuring"))
    next(measuring)
    next(measuring)
    hunt, started = psutil.Process(process.pid), list[psutil.Process]()
    while not any("pytest" in child.cmdline() for child in started):
        started = hunt.children(recursive=True)
    folders = folders_of(process.pid)  # now: whoever starts next removes those of a killed hunt
    process.kill()
    process.wait()
    return started, folders


@pytest.mark.slow
def test_a_hunt_that_was_killed_leaves_no_process_and_goes_on_where_it_was(
    repository: ScratchRepository,
) -> None:
    before, killed = repository.stands(), start(repository, bad="c2")
    started, left = kill_while_pytest_runs(killed)
    assert left
    assert psutil.wait_procs(started, timeout=60)[1] == []
    assert repository.stands() != before
    code, output, errors = bisect(repository, bad="c2")
    assert (code, repository.stands()) == (3, before)
    assert "There is nothing to bisect" in output
    first, second = re.findall(r"^\w{12}  Change \d +\d+ .*$", output, re.MULTILINE)
    assert first.split()[-5:] == ["-", "-", "given", "as", "good"], output
    assert second.split()[-4:] == ["-", "given", "as", "bad"], output
    assert f"measuring {repository.git('rev-parse', 'c1')[:12]} Change 1: run 1 " not in errors
    assert not [folder for folder in left if folder.exists()]


@pytest.mark.slow
def test_what_a_killed_hunt_left_changed_is_not_thrown_away_unasked(repository: ScratchRepository) -> None:
    before = repository.stands()
    kill_while_pytest_runs(start(repository, bad="c3"))
    (repository.folder / "package.py").write_text("changed = True\n")
    code, _, errors = bisect(repository, bad="c2")
    assert (code, "(package.py)" in errors) == (1, True)
    subprocess.run(errors.split("`")[1], shell=True, check=True, capture_output=True)
    assert repository.stands() == before


@pytest.mark.slow
def test_commits_that_cannot_be_installed_or_judged_are_gone_round(repository: ScratchRepository) -> None:
    repository.git("checkout", "--quiet", "-b", "broken", "c1")
    for number, seconds in enumerate((0.05, 0.05, 0.1, 0.1), 2):
        broken = repository.folder / "broken"
        broken.unlink(missing_ok=True)
        if number == 4:
            broken.write_text("")
        repository.commit(number, seconds)
        repository.git("tag", f"b{number}")
    before = repository.stands()
    install = "test ! -e broken && git rev-parse HEAD > noise/installed"
    code, _, errors = bisect(repository, "--install", install, bad="b5")
    assert (code, repository.stands()) == (1, before)
    assert "--skip-build-failures skips such commits" in errors
    assert (repository.folder / "noise" / "installed").read_text().strip() == before[1]
    code, output, _ = bisect(repository, "--install", install, "--skip-build-failures", bad="b5")
    assert (code, repository.stands()) == (4, before)
    assert [
        repository.git("rev-parse", name)[:12] in output.split("one of these")[1] for name in ("b3", "b4", "b5")
    ] == [
        False,
        True,
        True,
    ]


@pytest.mark.slow
def test_a_commit_whose_benchmark_crashes_is_skipped(repository: ScratchRepository) -> None:
    repository.git("checkout", "--quiet", "-b", "crashing", "c1")
    (repository.folder / "package.py").write_text("raise SystemExit(1)\n")
    repository.git("commit", "--quiet", "--all", "--message", "Crashes")
    repository.commit(9, 0.1)
    code, output, _ = bisect(repository, bad="HEAD")
    assert code == 4
    assert "crashed: the script ended with exit code 1" in output


@pytest.mark.slow
def test_too_few_runs_are_inconclusive_and_count_when_the_same_command_continues(tmp_path: Path) -> None:
    repository = make_repository(tmp_path / "project", seed=10, slower_at=2, by=0.03, commits=2)
    few = ("--runs", "3", "--max-runs", "5")
    code, output, errors = bisect(repository, *few, bad="c2")
    assert code == 4, output
    assert "inconclusive: 5 runs of each do not decide whether the bad commit is worse" in output
    assert "The same command with a higher --max-runs continues" in output
    assert "There is nothing to bisect" not in output
    assert "an earlier bisect is continued" not in errors
    code, again, errors = bisect(repository, *few, bad="c2")
    assert (code, again, "measuring" in errors) == (4, output, False)
    assert "an earlier bisect is continued" in errors


def test_what_is_not_committed_is_never_touched(repository: ScratchRepository) -> None:
    file = repository.folder / "package.py"
    file.write_text("changed = True\n")
    code, _, errors = bisect(repository)
    assert (code, file.read_text()) == (1, "changed = True\n")
    assert "has changes that are not committed (package.py): commit or stash them first" in errors.splitlines()[-1]


def test_a_bisect_of_the_user_is_left_alone(repository: ScratchRepository) -> None:
    repository.git("bisect", "start", "c4", "c1")
    before = repository.stands()
    code, _, errors = bisect(repository)
    assert (code, repository.stands()) == (1, before)
    assert "end it with `git bisect reset` first" in errors


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (("--good", "c4"), "good and bad are the same commit"),
        (("--good", "c4", "--bad", "c1"), "does not come after the good one"),
        (("--good", "c4", "--bad", "c1"), "exchange --good and --bad"),
        (("--good", "mian"), "did you mean 'main'?"),
        (("--good", "v1.0"), "no commit 'v1.0' in "),
        (("--runs", "40"), "--runs 40 is more than --max-runs 30"),
        (("--metric", "level"), "add --better less or --better more"),
        (("--metric", "work_time"), "nearest: work_time_s"),
        (("--entry", "works"), "--entry: there is no 'works'; did you mean 'work'?"),
        (("--entry", "other"), "cannot be measured: pytest ended with exit code 4"),
        (("--entry", "other"), "--bench-entries: no entry other; there are: work"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_mistakes_are_told_and_the_checkout_stays(
    repository: ScratchRepository, words: tuple[str, ...], problem: str
) -> None:
    before = repository.stands()
    code, _, errors = bisect(repository, *words)
    assert (code, repository.stands()) == (1, before)
    assert problem in errors
