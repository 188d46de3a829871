"""One comment on the pull or merge request of a job, which is updated in place."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from curator_bench.errors import BenchError
from curator_bench.sharing.code_hosts import Environment, GitHubRepository, GitLabProject
from curator_bench.sharing.web import insist

_FENCE = re.compile(r"^ {0,3}(```+|~~~+)", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Comment:
    """A comment that is there."""

    id: int
    author: str
    body: str


class Host(Protocol):
    """The request that the job is for, on a host of code."""

    @property
    def longest(self) -> int:
        """The number of characters that a comment may have."""

    @property
    def shown(self) -> str:
        """The request, for messages."""

    @property
    def may_comment(self) -> str:
        """The names of the variables that a comment needs, for messages."""

    def author(self) -> str:
        """Return the name under which we comment."""

    def comments(self) -> Iterator[Comment]: ...

    def create(self, body: str) -> None: ...

    def update(self, comment: Comment, body: str) -> None: ...


def post(host: Host, name: str, text: str, sleep: Callable[[float], None] = time.sleep) -> str:
    """Post a text as the comment of this name, and return what was done. Raises BenchError."""
    body = f"{_marker(name)}\n{fitting(text, host.longest - len(_marker(name)) - 1)}"
    return insist(lambda: _post_once(host, _marker(name), body), host.shown, host.may_comment, sleep)


def _post_once(host: Host, marker: str, body: str) -> str:
    ours = host.author()
    there = [one for one in host.comments() if one.author == ours and one.body.startswith(marker)]
    if not there:
        host.create(body)
        return f"{host.shown}: commented"
    host.update(there[-1], body)
    return f"{host.shown}: comment updated"


def _marker(name: str) -> str:
    return f"<!-- curator-bench: {name} -->"


def fitting(text: str, longest: int) -> str:
    """Cut a text that is too long at the end of a line, and say so. A block of code is closed."""
    if len(text) <= longest:
        return text
    note = f"\n\n*Cut here: the text has {len(text):,} characters, and at most {longest:,} fit here.*\n"
    kept = text[: longest - len(note) - 10].rpartition("\n")[0] or text[: longest - len(note) - 10]
    fences = _FENCE.findall(kept)
    return kept + (f"\n{fences[-1][:6]}" if len(fences) % 2 else "") + note


def host_of(environ: Environment, number: int | None = None) -> Host:
    """Return the host and request of this job, by its environment. Raises BenchError if it is for no request."""
    if environ.get("GITHUB_REPOSITORY"):
        return GitHub.of(environ, number)
    if environ.get("CI_PROJECT_ID"):
        return GitLab.of(environ, number)
    raise BenchError("this is no job of GitHub Actions or GitLab CI: GITHUB_REPOSITORY and CI_PROJECT_ID are not set")


@dataclass(frozen=True, slots=True)
class GitHub:
    """A pull request on GitHub."""

    repository: GitHubRepository
    number: int
    longest: int = 65_536

    @classmethod
    def of(cls, environ: Environment, number: int | None) -> GitHub:
        repository = GitHubRepository.of(environ)
        found = number or _pull_request(environ)
        if found is None:
            raise BenchError("this job is for no pull request: name one by --number")
        return cls(repository, found)

    @property
    def shown(self) -> str:
        return f"pull request {self.number} of {self.repository.name}"

    @property
    def may_comment(self) -> str:
        return "the job needs `permissions: {pull-requests: write}`, which a pull request from a fork never gets"

    def author(self) -> str:
        return self.repository.author()

    def comments(self) -> Iterator[Comment]:
        for one in self.repository.api.pages(self._path(self.number, "comments")):
            yield Comment(one["id"], (one.get("user") or {}).get("login", ""), one.get("body") or "")

    def create(self, body: str) -> None:
        self.repository.api.send("POST", self._path(self.number, "comments"), {"body": body})

    def update(self, comment: Comment, body: str) -> None:
        self.repository.api.send("PATCH", self._path("comments", comment.id), {"body": body})

    def _path(self, *parts: object) -> str:
        return self.repository.path("issues", *parts)


def _pull_request(environ: Environment) -> int | None:
    """Return the number of the pull request that the event is about."""
    event: Any = {}
    with suppress(OSError, ValueError):
        event = json.loads(Path(environ.get("GITHUB_EVENT_PATH", "")).read_bytes())
    issue = event.get("issue") or {}
    of_run = (event.get("workflow_run") or {}).get("pull_requests") or [{}]
    for found in (event.get("pull_request") or {}, issue if issue.get("pull_request") else {}, of_run[0]):
        if isinstance(found.get("number"), int):
            return int(found["number"])
    of_ref = re.match(r"refs/pull/(\d+)/", environ.get("GITHUB_REF", ""))
    return int(of_ref[1]) if of_ref else None


@dataclass(frozen=True, slots=True)
class GitLab:
    """A merge request on GitLab."""

    project: GitLabProject
    number: int
    longest: int = 1_000_000

    @classmethod
    def of(cls, environ: Environment, number: int | None) -> GitLab:
        named = environ.get("CI_MERGE_REQUEST_IID", "")
        if number is None and not named.isdigit():
            raise BenchError("this job is for no merge request: name one by --number")
        return cls(GitLabProject.of(environ), number or int(named))

    @property
    def shown(self) -> str:
        return f"merge request {self.number}"

    @property
    def may_comment(self) -> str:
        return "GITLAB_TOKEN must be a token of this project with the role Reporter and the scope api"

    def author(self) -> str:
        return self.project.author()

    def comments(self) -> Iterator[Comment]:
        for one in self.project.api.pages(self._path()):
            yield Comment(one["id"], (one.get("author") or {}).get("username", ""), one.get("body") or "")

    def create(self, body: str) -> None:
        self.project.api.send("POST", self._path(), {"body": body})

    def update(self, comment: Comment, body: str) -> None:
        self.project.api.send("PUT", f"{self._path()}/{comment.id}", {"body": body})

    def _path(self) -> str:
        return self.project.path("merge_requests", self.number, "notes")
