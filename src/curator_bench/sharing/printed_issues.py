"""Prints what would be written into issues."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from curator_bench.sharing.issues import Draft, Issue, Tracker


@dataclass(frozen=True, slots=True)
class PrintedIssues:
    """A tracker that is only read, if there is one, and whose changes are printed."""

    say: Callable[[str], None]
    of: Tracker | None = None
    shown: str = "the issues"
    may: str = "the token must be allowed to read them"
    longest: int = 65_536

    def author(self) -> str:
        return self.of.author() if self.of else ""

    def issues(self) -> Iterator[Issue]:
        yield from self.of.issues() if self.of else ()

    def create(self, draft: Draft) -> str:
        self.say(f"# {draft.title}\n\n{draft.body}\n")
        return "that would be new"

    def update(self, issue: Issue, draft: Draft, *, is_open: bool) -> None:
        self.say(f"# {issue.url}{'' if is_open else ' would be closed'}\n\n{draft.body}\n")

    def comment(self, issue: Issue, text: str) -> None:
        self.say(f"Comment on {issue.url}: {text}\n")
