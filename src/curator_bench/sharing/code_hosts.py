"""The repository of a job on GitHub, or its project on GitLab, and a token that may write there."""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import TypeAlias

from curator_bench.errors import BenchError
from curator_bench.sharing.web import Api

Environment: TypeAlias = Mapping[str, str]


@dataclass(frozen=True, slots=True)
class GitHubRepository:
    """A repository on GitHub."""

    api: Api
    graphql: Api
    name: str
    """OWNER/NAME."""

    @classmethod
    def of(cls, environ: Environment) -> GitHubRepository:
        """Return the repository of this job. Raises BenchError if a variable is missing or wrong."""
        name = environ["GITHUB_REPOSITORY"]
        if not re.fullmatch(r"[\w.-]+/[\w.-]+", name):
            raise BenchError(f"GITHUB_REPOSITORY: found {name!r}, expected OWNER/NAME")
        token = environ.get("GITHUB_TOKEN", "").strip()
        if not token:
            raise BenchError("GITHUB_TOKEN is not set: env: {GITHUB_TOKEN: ${{ github.token }}} in the step sets it")
        url = environ.get("GITHUB_API_URL", "https://api.github.com").rstrip("/")
        graphql = environ.get("GITHUB_GRAPHQL_URL") or f"{url.removesuffix('/v3')}/graphql"
        header = ("Authorization", "Bearer")
        return cls(Api(url, token, *header), Api(graphql, token, *header), name)

    def author(self) -> str:
        """Ask GraphQL whose token it is, as the token of a job may not ask REST for it."""
        answer = self.graphql.send("POST", "", {"query": "query { viewer { login } }"})
        with suppress(KeyError, TypeError):
            return str(answer.document["data"]["viewer"]["login"])
        raise BenchError(f"{self.graphql.url} does not say whose token it is")

    def path(self, *parts: object) -> str:
        return "/".join(["/repos", self.name, *map(str, parts)])


@dataclass(frozen=True, slots=True)
class GitLabProject:
    """A project on GitLab."""

    api: Api
    number: str

    @classmethod
    def of(cls, environ: Environment) -> GitLabProject:
        """Return the project of this job. Raises BenchError if a variable is missing or wrong."""
        number = environ["CI_PROJECT_ID"]
        if not number.isdigit():
            raise BenchError(f"CI_PROJECT_ID: found {number!r}, expected a number")
        token = environ.get("GITLAB_TOKEN", "").strip()
        if not token:
            raise BenchError(
                "GITLAB_TOKEN is not set: add a project access token with the role Reporter and the scope api as a "
                "masked variable. CI_JOB_TOKEN can write neither comments nor issues."
            )
        url = environ.get("CI_API_V4_URL", "https://gitlab.com/api/v4").rstrip("/")
        return cls(Api(url, token, "PRIVATE-TOKEN"), number)

    def author(self) -> str:
        answer = self.api.get("/user")
        with suppress(KeyError, TypeError):
            return str(answer.document["username"])
        raise BenchError(f"{self.api.url} does not say whose token it is")

    def path(self, *parts: object) -> str:
        return "/".join(["/projects", self.number, *map(str, parts)])
