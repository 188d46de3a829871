"""One comment on the pull or merge request of a job, which is updated in place."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, TypeAlias

from curator_bench.errors import BenchError
from curator_bench.sharing.web import Api, Refused, Unavailable

Environment: TypeAlias = Mapping[str, str]
_TRIES = 5
_LONGEST_PAUSE_S = 60.0
_MOST_PAGES = 100
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
    body = f"{_marker(name)}\n{_fitting(text, host.longest - len(_marker(name)) - 1)}"
    pause_s = 1.0
    for left in reversed(range(_TRIES)):
        try:
            return _post_once(host, _marker(name), body)
        except Refused as error:
            raise BenchError(f"{host.shown}: no permission to comment ({error}): {host.may_comment}") from error
        except Unavailable as error:  # perhaps after it was posted: so it is looked for again
            if not left:
                raise BenchError(f"{host.shown}: {error}; tried {_TRIES} times") from error
            sleep(min(pause_s if error.after_s is None else error.after_s, _LONGEST_PAUSE_S))
            pause_s *= 2
    raise AssertionError("unreachable")


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


def _fitting(text: str, longest: int) -> str:
    """Cut a text that is too long at the end of a line, and say so. A block of code is closed."""
    if len(text) <= longest:
        return text
    note = f"\n\n*Cut here: the text has {len(text):,} characters, and a comment has at most {longest:,}.*\n"
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

    api: Api
    graphql: Api
    repository: str
    number: int
    longest: int = 65_536

    @classmethod
    def of(cls, environ: Environment, number: int | None) -> GitHub:
        repository = environ["GITHUB_REPOSITORY"]
        if not re.fullmatch(r"[\w.-]+/[\w.-]+", repository):
            raise BenchError(f"GITHUB_REPOSITORY: found {repository!r}, expected OWNER/NAME")
        token = environ.get("GITHUB_TOKEN", "").strip()
        if not token:
            raise BenchError("GITHUB_TOKEN is not set: env: {GITHUB_TOKEN: ${{ github.token }}} in the step sets it")
        found = number or _pull_request(environ)
        if found is None:
            raise BenchError("this job is for no pull request: name one by --number")
        url = environ.get("GITHUB_API_URL", "https://api.github.com").rstrip("/")
        graphql = environ.get("GITHUB_GRAPHQL_URL") or f"{url.removesuffix('/v3')}/graphql"
        header = ("Authorization", "Bearer")
        return cls(Api(url, token, *header), Api(graphql, token, *header), repository, found)

    @property
    def shown(self) -> str:
        return f"pull request {self.number} of {self.repository}"

    @property
    def may_comment(self) -> str:
        return "the job needs `permissions: {pull-requests: write}`, which a pull request from a fork never gets"

    def author(self) -> str:
        """Ask GraphQL, as the token of a job may not ask REST for it."""
        answer = self.graphql.send("POST", "", {"query": "query { viewer { login } }"})
        with suppress(KeyError, TypeError):
            return str(answer.document["data"]["viewer"]["login"])
        raise BenchError(f"{self.graphql.url} does not say whose token it is")

    def comments(self) -> Iterator[Comment]:
        for one in _pages(self.api, self._path("issues", self.number, "comments")):
            yield Comment(one["id"], (one.get("user") or {}).get("login", ""), one.get("body") or "")

    def create(self, body: str) -> None:
        self.api.send("POST", self._path("issues", self.number, "comments"), {"body": body})

    def update(self, comment: Comment, body: str) -> None:
        self.api.send("PATCH", self._path("issues", "comments", comment.id), {"body": body})

    def _path(self, *parts: object) -> str:
        return "/".join(["/repos", self.repository, *map(str, parts)])


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

    api: Api
    project: str
    number: int
    longest: int = 1_000_000

    @classmethod
    def of(cls, environ: Environment, number: int | None) -> GitLab:
        project = environ["CI_PROJECT_ID"]
        named = environ.get("CI_MERGE_REQUEST_IID", "")
        if not project.isdigit():
            raise BenchError(f"CI_PROJECT_ID: found {project!r}, expected a number")
        if number is None and not named.isdigit():
            raise BenchError("this job is for no merge request: name one by --number")
        token = environ.get("GITLAB_TOKEN", "").strip()
        if not token:
            raise BenchError(
                "GITLAB_TOKEN is not set: add a project access token with the role Reporter and the scope api as a "
                "masked variable. CI_JOB_TOKEN cannot comment."
            )
        url = environ.get("CI_API_V4_URL", "https://gitlab.com/api/v4").rstrip("/")
        return cls(Api(url, token, "PRIVATE-TOKEN"), project, number or int(named))

    @property
    def shown(self) -> str:
        return f"merge request {self.number}"

    @property
    def may_comment(self) -> str:
        return "GITLAB_TOKEN must be a token of this project with the role Reporter and the scope api"

    def author(self) -> str:
        answer = self.api.get("/user")
        with suppress(KeyError, TypeError):
            return str(answer.document["username"])
        raise BenchError(f"{self.api.url} does not say whose token it is")

    def comments(self) -> Iterator[Comment]:
        for one in _pages(self.api, self._path()):
            yield Comment(one["id"], (one.get("author") or {}).get("username", ""), one.get("body") or "")

    def create(self, body: str) -> None:
        self.api.send("POST", self._path(), {"body": body})

    def update(self, comment: Comment, body: str) -> None:
        self.api.send("PUT", f"{self._path()}/{comment.id}", {"body": body})

    def _path(self) -> str:
        return f"/projects/{self.project}/merge_requests/{self.number}/notes"


def _pages(api: Api, path: str) -> Iterator[Any]:
    for page in range(1, _MOST_PAGES + 1):
        answer = api.get(path, page)
        if not isinstance(answer.document, list):
            raise BenchError(f"{api.url}{path}: found {type(answer.document).__name__}, expected a list of comments")
        yield from answer.document
        if not answer.has_more:
            return
