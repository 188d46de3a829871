"""Looks for the cause of a finding with `curator-bench bisect`, in a process of its own."""

from __future__ import annotations

import json
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from curator_bench.causes.commands import bisect_words
from curator_bench.causes.finding_changes import question_of
from curator_bench.hunting.checkout import Checkout
from curator_bench.hunting.children import environment, run
from curator_bench.sharing.issue_texts import Cause
from curator_bench.verdict.judgement import Word
from curator_bench.words import change

if TYPE_CHECKING:
    from curator_bench.causes.findings import RecordedFinding
    from curator_bench.causes.what_changed import WhatChanged

_FOUND, _NOT_WORSE, _IN_DOUBT = 0, 3, 4
_PROGRAM = "from curator_bench.cli import main; main()"
_MOST_SUSPECTS = 20
_TOKENS = ("GITHUB_TOKEN", "GH_TOKEN", "GITLAB_TOKEN")
_LEAST_S = 1.0
"""In less time nothing can be measured."""


@dataclass(frozen=True, slots=True)
class Bisector:
    """Bisects findings until the deadline. What it measured is in the database, so a later one continues."""

    changes: Mapping[str, WhatChanged]
    database: str
    repo: Path
    options: tuple[str, ...]
    pytest_args: tuple[str, ...]
    deadline: float
    tell: Callable[[str], None]
    keep: Callable[[], None]
    """Called when something was measured."""
    failed: list[str] = field(default_factory=list)
    """Names of the findings that could not be bisected."""

    def look_into(self, finding: RecordedFinding) -> Cause | None:
        """Return the cause as far as measuring tells it; None if no time is left."""
        question = question_of(finding)
        words = bisect_words(self.changes[finding.name], question) if question and question.path else []
        if not words:
            return Cause(("Not to be found by bisecting: no commits and no packages differ.",), True, True)
        left_s = self.deadline - time.monotonic()
        if left_s < _LEAST_S:
            return None
        words = self._after_a_rebase(words)
        self.tell(f"{finding.name}: curator-bench {' '.join(words)}")
        code, document = self._run([*words, *self._budget(left_s)])
        self.keep()
        if code not in (_FOUND, _NOT_WORSE, _IN_DOUBT):
            self.failed.append(finding.name)
        return cause_of(code, document)

    def _after_a_rebase(self, words: list[str]) -> list[str]:
        """Begin where both histories part, if the bad commit does not come after the good one."""
        if "--good" not in words:
            return words
        good, bad = words.index("--good") + 1, words.index("--bad") + 1
        found = Checkout(self.repo).tried("merge-base", words[good], words[bad]).stdout.strip()
        return [*words[:good], found or words[good], *words[good + 1 :]]

    def _budget(self, left_s: float) -> list[str]:
        return [] if left_s == float("inf") else [f"--budget={left_s:.1f}s"]

    def _run(self, words: list[str]) -> tuple[int, dict[str, Any]]:
        more = ["--json", "--db", self.database, f"--repo={self.repo}", *self.options, "--", *self.pytest_args]
        command = [sys.executable, "-P", "-c", _PROGRAM, *words, *more]
        with tempfile.TemporaryFile() as output:
            code = run(command, env=_without_tokens(environment()), cwd=Path.cwd(), output=output, has_own_errors=True)
            output.seek(0)
            content = output.read()
        return code, json.loads(content) if content.strip() else {}


def _without_tokens(env: Mapping[str, str]) -> dict[str, str]:
    """Leave out the tokens that write issues: commits of any age need not have them."""
    return {name: value for name, value in env.items() if name not in _TOKENS}


def not_measured(finding: RecordedFinding) -> Cause:
    """Stand in for a bisector where nothing shall be measured."""
    return Cause((f"Not looked for: --dry-run does not measure {finding.name}.",), True, False)


def cause_of(code: int, found: Mapping[str, Any]) -> Cause | None:
    """Return what an exit code and the JSON of `bisect` say; None if the time was over before it said anything."""
    if code == _FOUND:
        return Cause((*_culprits(found), _measured(found)), is_confirmed=True, is_explained=True)
    if code == _NOT_WORSE:
        return Cause(("Measured again, it is not worse.",), is_confirmed=False, is_explained=True)
    if code == _IN_DOUBT and not found:
        return None
    if code == _IN_DOUBT and found["difference"] == Word.REGRESSION:
        return Cause(tuple(_suspects(found)), is_confirmed=True, is_explained=False)
    if code == _IN_DOUBT:
        return Cause(("Measured again, it is not certain that it is worse.",), is_confirmed=False, is_explained=False)
    why = f"It could not be bisected (exit code {code}): the last line above says why."
    return Cause((why,), is_confirmed=False, is_explained=False)


def _culprits(found: Mapping[str, Any]) -> list[str]:
    if "culprits" in found:
        return ["Packages:", *(_package(one) for one in found["culprits"])]
    subjects = {one["commit"]: one["subject"] for one in found["tried"]}
    return [f"The first bad commit is {found['culprit']}", f"  {subjects.get(found['culprit'], '')}".rstrip()]


def _measured(found: Mapping[str, Any]) -> str:
    low, high = found["interval"]
    return (
        f"Measured again, {found['metric']} {change(found['change'])} (95 % interval {change(low)} to {change(high)})"
    )


def _suspects(found: Mapping[str, Any]) -> list[str]:
    named = [_package(one) if isinstance(one, dict) else f"  {one}" for one in found["suspects"]]
    more = [f"  … and {len(named) - _MOST_SUSPECTS} more"] if len(named) > _MOST_SUSPECTS else []
    return ["It is worse, and the first bad one is one of these:", *named[:_MOST_SUSPECTS], *more]


def _package(one: Mapping[str, Any]) -> str:
    return f"  {one['name']} {one['a'] or 'not installed'} → {one['b'] or 'not installed'}"
