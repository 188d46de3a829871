"""Whatever differs, the command that would tell the cause is offered: for commits, for packages, for the machine."""

from __future__ import annotations

from dataclasses import replace

import pytest

from curator_bench.causes.commands import HEAD, Question, better_by, command_lines, commands
from curator_bench.causes.what_changed import Facts, what_changed
from curator_bench.verdict.direction import Better

OLD, NEW = "0123456789abcdef0000", "fedcba98765432100000"
KNOWN = Facts(commits={"": OLD}, packages={"numpy": "1.26.4"}, machine={"kernel": "6.1", "python": "3.11"})
QUESTION = Question("work", "benchmarks/matrix.yaml", "work_time_s", ("monday", "tuesday"))
BY_COMMITS = "curator-bench bisect --good 0123456789ab --bad fedcba987654 --entry work --metric work_time_s"
BY_PACKAGES = "curator-bench bisect --packages monday tuesday --entry work --metric work_time_s"
OTHER_COMMIT = replace(KNOWN, commits={"": NEW})
OTHER_PACKAGES = replace(KNOWN, packages={"numpy": "2.0"})
OTHER_MACHINE = replace(KNOWN, machine={"kernel": "6.5", "python": "3.12"})


def offered(after: Facts, before: Facts = KNOWN, question: Question = QUESTION) -> list[str]:
    return [one.text for one in commands(what_changed(before, after), question)]


@pytest.mark.parametrize(
    ("after", "texts"),
    [
        (KNOWN, []),
        (OTHER_COMMIT, [BY_COMMITS]),
        (OTHER_PACKAGES, [BY_PACKAGES]),
        (OTHER_MACHINE, ["curator-bench doctor"]),
        (replace(KNOWN, machine={"kernel": "6.1", "python": "3.12"}), []),
        (
            Facts(OTHER_COMMIT.commits, packages=OTHER_PACKAGES.packages, machine=OTHER_MACHINE.machine),
            [BY_COMMITS, BY_PACKAGES, "curator-bench doctor"],
        ),
    ],
)
def test_each_kind_of_suspects_has_its_command(after: Facts, texts: list[str]) -> None:
    assert offered(after) == texts


def test_the_only_commit_needs_no_search_and_its_function_can_be_found() -> None:
    changed = what_changed(KNOWN, OTHER_COMMIT)
    (found,) = commands(changed, QUESTION, lambda *_: ["fedcba98 Ann: the only one"])
    of_entry = f"{QUESTION.path} --bench-entries={QUESTION.entry}"
    ends = f"{OLD[:12]} {NEW[:12]}"
    assert found.tells == "which function"
    assert found.text == f"curator-bench ab {ends} --profile py-spy --metric {QUESTION.metric} -- {of_entry}"
    python = replace(QUESTION, path="test_work.py")
    (found,) = commands(changed, python, lambda *_: ["fedcba98 Ann: the only one"])
    assert found.text.endswith(f" -- test_work.py::{QUESTION.entry}")
    assert len(list(commands(changed, QUESTION, lambda *_: ["fedcba98 Ann: two", "0123 Ann: one"]))) == 1
    assert len(list(commands(changed, QUESTION, lambda *_: None))) == 1, "no checkout here has them"


def test_a_package_under_test_is_bisected_in_its_own_checkout_or_by_its_version() -> None:
    before, after = replace(KNOWN, commits={"lib": OLD}), replace(KNOWN, commits={"lib": NEW})
    (found,) = commands(what_changed(before, after), QUESTION)
    assert (found.tells, found.text) == ("which commit, in a checkout of lib", BY_COMMITS)
    assert offered(replace(KNOWN, commits={"lib": "1.1"}), replace(KNOWN, commits={"lib": "1.0"})) == [BY_PACKAGES]


def test_changes_that_are_not_committed_cannot_be_bisected() -> None:
    assert offered(replace(KNOWN, changed=frozenset({""}))) == []


@pytest.mark.parametrize("sessions", [("monday", ""), ("", "monday"), ("monday", "monday")])
def test_packages_are_named_by_two_sessions_that_are_recorded(sessions: tuple[str, str]) -> None:
    assert offered(OTHER_PACKAGES, question=replace(QUESTION, sessions=sessions)) == []


def test_an_imported_run_cannot_be_measured_here() -> None:
    assert offered(OTHER_PACKAGES, question=replace(QUESTION, path="")) == []


def test_names_are_as_the_shell_and_the_command_need_them() -> None:
    python = Question("test_work[1-a b]", "tests/test_work.py", "the level", ("a b", "c"), Better.MORE)
    (text,) = offered(OTHER_PACKAGES, question=python)
    assert text == (
        "curator-bench bisect --packages 'a b' c --entry 'tests/test_work.py::test_work[1-a b]'"
        " --metric 'the level' --better more"
    )


def test_the_lines_are_introduced_and_safe_for_a_terminal() -> None:
    lines = command_lines(what_changed(KNOWN, OTHER_PACKAGES), replace(QUESTION, metric="time\x1b[2J_s"))
    assert lines[0] == HEAD
    assert lines[1].startswith("  which package: curator-bench bisect --packages monday tuesday")
    assert "\x1b" not in lines[1]
    assert command_lines(what_changed(KNOWN, KNOWN), QUESTION) == []


@pytest.mark.parametrize(
    ("change", "is_worse", "better"),
    [(0.1, True, Better.LESS), (-0.1, True, Better.MORE), (-0.1, False, Better.LESS)],
)
def test_the_better_direction_is_told_by_a_change(change: float, is_worse: bool, better: Better) -> None:
    assert better_by(change, is_worse=is_worse) is better
