"""Issues of findings, on GitHub and GitLab. The text of each begins with a hidden line that names its finding."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Protocol
from urllib.parse import quote

from curator_bench.errors import BenchError
from curator_bench.sharing.code_hosts import Environment, GitHubRepository, GitLabProject
from curator_bench.sharing.places import hidden

LABEL = "curator-bench"
"""The label of all our issues, by which they are found again."""
_MARK = re.compile(r"<!-- curator-bench finding (\{.*\}) -->")


@dataclass(frozen=True, slots=True)
class Mark:
    """The hidden first line of an issue."""

    finding: str
    """The name that the finding had when it was last written about."""
    series: tuple[tuple[str, str, str], ...]
    """Path of the file, entry and metric of each step."""
    cause: tuple[str, ...] = ()
    """The cause in words, as far as it is known."""
    is_explained: bool = False
    """The cause is known, or cannot be found by measuring."""
    is_over: bool = False
    """It was closed because the finding is over, and not by a person."""

    @property
    def line(self) -> str:
        document = {
            "finding": self.finding,
            "series": [list(one) for one in self.series],
            "cause": list(self.cause),
            "is_explained": self.is_explained,
            "is_over": self.is_over,
        }
        # What ends a comment of HTML would end the line.
        return f"<!-- curator-bench finding {json.dumps(document).replace('>', chr(92) + 'u003e')} -->"

    @classmethod
    def of(cls, text: str) -> Mark | None:
        """Read the first line of a text; None if it is no mark."""
        found = _MARK.fullmatch(text.partition("\n")[0].strip())
        try:
            document = json.loads(found[1]) if found else {}
            series = tuple((str(path), str(entry), str(metric)) for path, entry, metric in document["series"])
            states = bool(document["is_explained"]), bool(document["is_over"])
            return cls(str(document["finding"]), series, tuple(map(str, document["cause"])), *states)
        except (ValueError, KeyError, TypeError):
            return None


@dataclass(frozen=True, slots=True)
class Issue:
    """An issue that is there."""

    number: int
    title: str
    text: str
    is_open: bool
    created: datetime
    author: str
    url: str


@dataclass(frozen=True, slots=True)
class Draft:
    """The title and the text that an issue shall have."""

    title: str
    mark: Mark
    body: str
    labels: tuple[str, ...] = field(default=())

    @property
    def text(self) -> str:
        return hidden(f"{self.mark.line}\n{self.body}")

    def is_of(self, issue: Issue) -> bool:
        """True if the issue has this text. Hosts change the ends of lines, and people may change the title."""
        return _lines(issue.text) == _lines(self.text)


def _lines(text: str) -> list[str]:
    return [line.rstrip() for line in text.strip().splitlines()]


class Tracker(Protocol):
    """The issues of a repository."""

    @property
    def shown(self) -> str:
        """The repository, for messages."""

    @property
    def may(self) -> str:
        """The permission that is needed, for messages."""

    @property
    def longest(self) -> int:
        """The number of characters that a text may have."""

    def author(self) -> str:
        """Return the name under which we write."""

    def issues(self) -> Iterator[Issue]:
        """Yield all issues with our label, by whomever."""

    def create(self, draft: Draft) -> str:
        """Open an issue, and return its URL."""

    def update(self, issue: Issue, draft: Draft, *, is_open: bool) -> None:
        """Change the text, and open or close the issue. Its title stays."""

    def comment(self, issue: Issue, text: str) -> None: ...


def tracker_of(environ: Environment) -> Tracker:
    """Return the issues of the repository of this job. Raises BenchError if it is none."""
    if environ.get("GITHUB_REPOSITORY"):
        return GitHubIssues(GitHubRepository.of(environ))
    if environ.get("CI_PROJECT_ID"):
        return GitLabIssues(GitLabProject.of(environ))
    raise BenchError("this is no job of GitHub Actions or GitLab CI: GITHUB_REPOSITORY and CI_PROJECT_ID are not set")


@dataclass(frozen=True, slots=True)
class GitHubIssues:
    """The issues of a repository on GitHub."""

    repository: GitHubRepository
    longest: int = 65_536
    may: str = "the job needs `permissions: {issues: write}`"

    @property
    def shown(self) -> str:
        return f"issues of {self.repository.name}"

    def author(self) -> str:
        return self.repository.author()

    def issues(self) -> Iterator[Issue]:
        for one in self.repository.api.pages(self.repository.path(f"issues?state=all&labels={quote(LABEL)}")):
            if "pull_request" not in one:
                author = (one.get("user") or {}).get("login", "")
                yield _issue(one, one["number"], "body", author, one.get("html_url"))

    def create(self, draft: Draft) -> str:
        wanted = [LABEL, *draft.labels]
        document = {"title": draft.title, "body": draft.text, "labels": wanted}
        made = self.repository.api.send("POST", self.repository.path("issues"), document).document
        if LABEL not in [one.get("name") for one in made.get("labels") or ()]:  # dropped without a word
            self.repository.api.send(
                "POST", self.repository.path("issues", made["number"], "labels"), {"labels": wanted}
            )
        return str(made.get("html_url", ""))

    def update(self, issue: Issue, draft: Draft, *, is_open: bool) -> None:
        document = {"body": draft.text, "state": "open" if is_open else "closed"}
        self.repository.api.send("PATCH", self.repository.path("issues", issue.number), document)

    def comment(self, issue: Issue, text: str) -> None:
        self.repository.api.send("POST", self.repository.path("issues", issue.number, "comments"), {"body": text})


@dataclass(frozen=True, slots=True)
class GitLabIssues:
    """The issues of a project on GitLab."""

    project: GitLabProject
    longest: int = 1_000_000
    may: str = "GITLAB_TOKEN must be a token of this project with the role Reporter and the scope api"

    @property
    def shown(self) -> str:
        return f"issues of project {self.project.number}"

    def author(self) -> str:
        return self.project.author()

    def issues(self) -> Iterator[Issue]:
        for one in self.project.api.pages(self.project.path(f"issues?scope=all&labels={quote(LABEL)}")):
            author = (one.get("author") or {}).get("username", "")
            yield _issue(one, one["iid"], "description", author, one.get("web_url"))

    def create(self, draft: Draft) -> str:
        document = {"title": draft.title, "description": draft.text, "labels": ",".join([LABEL, *draft.labels])}
        made = self.project.api.send("POST", self.project.path("issues"), document).document
        return str(made.get("web_url", ""))

    def update(self, issue: Issue, draft: Draft, *, is_open: bool) -> None:
        change = {} if is_open is issue.is_open else {"state_event": "reopen" if is_open else "close"}
        document = {"description": draft.text, **change}
        self.project.api.send("PUT", self.project.path("issues", issue.number), document)

    def comment(self, issue: Issue, text: str) -> None:
        self.project.api.send("POST", self.project.path("issues", issue.number, "notes"), {"body": text})


def _issue(one: dict[str, Any], number: int, text: str, author: str, url: str | None) -> Issue:
    is_open = one["state"] in ("open", "opened")
    created = datetime.fromisoformat(one["created_at"].replace("Z", "+00:00"))
    return Issue(number, one.get("title") or "", one.get(text) or "", is_open, created, author, url or f"#{number}")
