"""The commands that would tell why something became slower. All places that offer them ask here.

lines = command_lines(changed, question, log)     # changed: what_changed.WhatChanged; log: wording.Log
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from curator_bench.causes.what_changed import CommitRange, Kind, WhatChanged
from curator_bench.causes.wording import Log, no_log
from curator_bench.verdict.direction import Better, better_of
from curator_bench.words import printable

_COMMIT = re.compile("[0-9a-f]{7,64}")
_SHOWN = 12
_PYTHON = "python"
HEAD = "To find the cause:"
WHICH_FUNCTION = "which function"


@dataclass(frozen=True, slots=True)
class Question:
    """The subject of the commands: one metric of one entry that became slower between two sessions."""

    entry: str
    path: str
    metric: str
    sessions: tuple[str, str]
    """Names of the sessions of the last run before and of the first after; empty for one that is not recorded."""
    better: Better | None = None

    @property
    def words(self) -> str:
        """The options of `bisect` that say it."""
        named = self._node_id if self._is_python else self.entry
        return f"--entry {shlex.quote(named)} {self._of_metric}"

    @property
    def words_of_ab(self) -> str:
        """The options and arguments of `ab` that say it."""
        here = [self._node_id] if self._is_python else [self.path, f"--bench-entries={self.entry}"]
        return f"{self._of_metric} -- {shlex.join(here)}"

    @property
    def _is_python(self) -> bool:
        return self.path.endswith(".py")

    @property
    def _node_id(self) -> str:
        return f"{self.path}::{self.entry}"

    @property
    def _of_metric(self) -> str:
        is_known = self.better is None or better_of(self.metric) is not None
        better = "" if is_known else f" --better {self.better}"
        return f"--metric {shlex.quote(self.metric)}{better}"


@dataclass(frozen=True, slots=True)
class Command:
    """A command, and the question that it answers."""

    tells: str
    text: str


def better_by(change: float, *, is_worse: bool) -> Better:
    """Return which direction is better, of a metric that a change made worse or better."""
    return Better.LESS if (change > 0) is is_worse else Better.MORE


def commands(changed: WhatChanged, question: Question, log: Log = no_log) -> Iterator[Command]:
    """Yield a command for each kind of suspects: commits, packages, the machine.

    An imported run has no file that could be run here, so there is none.
    """
    if not question.path:
        return
    for one in changed.commits:
        count, before, after = _count_of(one, log), one.before[:_SHOWN], one.after[:_SHOWN]
        if count is None or count > 1:
            where = f", in a checkout of {one.of}" if one.of else ""
            ends = f"--good {before} --bad {after}"
            yield Command(f"which commit{where}", f"curator-bench bisect {ends} {question.words}")
        elif count == 1 and not one.of:
            yield Command(WHICH_FUNCTION, f"curator-bench ab {before} {after} --profile py-spy {question.words_of_ab}")
    before, after = question.sessions
    if _have_other_packages(changed) and before and after and before != after:
        sessions = f"{shlex.quote(before)} {shlex.quote(after)}"
        yield Command("which package", f"curator-bench bisect --packages {sessions} {question.words}")
    if any(one.kind is Kind.MACHINE and one.name != _PYTHON for one in changed.differences):
        yield Command("whether this machine is fit to measure", "curator-bench doctor")


def bisect_words(changed: WhatChanged, question: Question) -> list[str]:
    """Return the command that bisects the project's own commits, also a single one, or else the packages.

    It is empty if neither differs.
    """
    for one in changed.commits:
        if not one.of and one.before != one.after and all(map(_COMMIT.fullmatch, (one.before, one.after))):
            return ["bisect", "--good", one.before, "--bad", one.after, *shlex.split(question.words)]
    before, after = question.sessions
    if _have_other_packages(changed) and before and after and before != after:
        return ["bisect", "--packages", before, after, *shlex.split(question.words)]
    return []


def command_lines(changed: WhatChanged, question: Question, log: Log = no_log) -> list[str]:
    """Return the commands in words, below a line that introduces them; nothing if there are none."""
    return worded(list(commands(changed, question, log)))


def document(found: Iterable[Command]) -> list[dict[str, str]]:
    """Return commands for JSON."""
    return [{"tells": one.tells, "command": one.text} for one in found]


def worded(found: Sequence[Command]) -> list[str]:
    """Word commands, one a line, below a line that introduces them."""
    return [HEAD, *(f"  {printable(f'{one.tells}: {one.text}')}" for one in found)] if found else []


def _count_of(one: CommitRange, log: Log) -> int | None:
    """Return the number of commits in a range; None if no checkout here tells it."""
    are_commits = all(map(_COMMIT.fullmatch, (one.before, one.after)))
    if not are_commits or one.before == one.after:
        return 0
    known = log(one.of, one.before, one.after)
    return None if known is None else len(known)


def _have_other_packages(changed: WhatChanged) -> bool:
    """True if packages differ, or versions of a package under test whose commit is not known."""
    versions = (one for one in changed.commits if one.of and not _COMMIT.fullmatch(one.after))
    return any(one.before != one.after for one in versions) or any(
        one.kind is Kind.PACKAGES for one in changed.differences
    )
