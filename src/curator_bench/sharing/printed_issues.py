"""Prints the issues that would be opened."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from curator_bench.sharing.issues import Draft, Issue


@dataclass(frozen=True, slots=True)
class PrintedIssues:
    """A tracker that has no issues, and prints each that is created."""

    say: Callable[[str], None]
    shown: str = "no issues"
    may: str = ""
    longest: int = 65_536

    def author(self) -> str:
        return ""

    def issues(self) -> Iterator[Issue]:
        yield from ()

    def create(self, draft: Draft) -> str:
        self.say(f"# {draft.title}\n\n{draft.body}\n")
        return "printed, not opened"

    def update(self, issue: Issue, draft: Draft, *, is_open: bool) -> None:
        raise NotImplementedError("there is none to update")

    def comment(self, issue: Issue, text: str) -> None:
        raise NotImplementedError("there is none to comment on")
