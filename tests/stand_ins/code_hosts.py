"""Stand-ins for GitHub and GitLab: servers on loopback that keep the comments of one request, and issues."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

TOKEN = "planted-token-of-the-job"
US, OTHERS = "github-actions[bot]", "somebody"
GITHUB_NOTES, GITLAB_NOTES = "/repos/org/parcels/issues/7/comments", "/projects/12/merge_requests/7/notes"


@dataclass
class CodeHost:
    """What the server keeps, and how it behaves."""

    system: str
    comments: list[dict[str, Any]] = field(default_factory=list)
    issues: list[dict[str, Any]] = field(default_factory=list)
    """Each with its notes."""
    drops_labels: bool = False
    """As GitHub does with those of authors who may not push."""
    failures: list[tuple[str, int]] = field(default_factory=list)
    """Method and status of answers to give first; a POST is then carried out all the same."""
    refuses: int = 0
    """Status of every answer to what writes."""
    redirects_to: str = ""
    page: int = 2
    asked: list[str] = field(default_factory=list)
    tokens: list[str] = field(default_factory=list)
    url: str = ""

    @property
    def environment(self) -> dict[str, str]:
        """The environment of a job."""
        if self.system == "github":
            return {
                "GITHUB_ACTIONS": "true",
                "GITHUB_API_URL": self.url,
                "GITHUB_GRAPHQL_URL": f"{self.url}/graphql",
                "GITHUB_REPOSITORY": "org/parcels",
                "GITHUB_REF": "refs/pull/7/merge",
                "GITHUB_TOKEN": TOKEN,
            }
        return {
            "CI_API_V4_URL": self.url,
            "CI_PROJECT_ID": "12",
            "CI_MERGE_REQUEST_IID": "7",
            "GITLAB_TOKEN": TOKEN,
        }

    def add(self, author: str, body: str) -> None:
        of = {"user": {"login": author}} if self.system == "github" else {"author": {"username": author}}
        self.comments.append({"id": 100 + len(self.comments), "body": body, **of})

    def open_issue(self, author: str, title: str, body: str, labels: list[str]) -> dict[str, Any]:
        number, by = 20 + len(self.issues), {"login" if self.system == "github" else "username": author}
        issue = {
            "title": title,
            "created_at": datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z"),
            "notes": [],
            **(
                {"number": number, "body": body, "state": "open", "user": by, "html_url": f"{self.url}/i/{number}"}
                if self.system == "github"
                else {"iid": number, "description": body, "state": "opened", "author": by, "web_url": f"{self.url}/i"}
            ),
            "labels": [{"name": one} for one in labels] if self.system == "github" else labels,
        }
        self.issues.append(issue)
        return issue

    def texts(self, state: str = "open") -> list[str]:
        """The texts of issues that are open or closed."""
        body = "body" if self.system == "github" else "description"
        return [one[body] for one in self.issues if one["state"].startswith(state)]

    @property
    def bodies(self) -> list[str]:
        return [one["body"] for one in self.comments]

    def answer(self, method: str, target: str, body: Any) -> tuple[int, dict[str, str], Any]:
        path = urlsplit(target).path
        self.asked.append(f"{method} {path}")
        if self.redirects_to:
            return 302, {"Location": self.redirects_to}, {}
        if path in ("/graphql", "/user"):
            return 200, {}, {"data": {"viewer": {"login": US}}} if self.system == "github" else {"username": US}
        if method != "GET" and self.refuses:
            return self.refuses, {}, {"message": f"Resource not accessible with {TOKEN}"}
        status, headers, document = self._carried_out(method, target, body)
        if self.failures and self.failures[0][0] == method:
            return self.failures.pop(0)[1], {"Retry-After": "0"}, {"message": "later"}
        return status, headers, document

    def _carried_out(self, method: str, target: str, body: Any) -> tuple[int, dict[str, str], Any]:
        path, asked = urlsplit(target).path, parse_qs(urlsplit(target).query)
        listed = GITHUB_NOTES if self.system == "github" else GITLAB_NOTES
        single = "/repos/org/parcels/issues/comments" if self.system == "github" else GITLAB_NOTES
        if method == "GET" and path == listed:
            first = (int(asked["page"][0]) - 1) * self.page
            more = {"Link": f'<{self.url}{path}?page=2>; rel="next"'} if first + self.page < len(self.comments) else {}
            return 200, more, self.comments[first : first + self.page]
        if method == "POST" and path == listed:
            self.add(US, body["body"])
            return 201, {}, {}
        if found := self._of_issues(method, path, asked, body):
            return found
        for one in self.comments:
            if method in ("PATCH", "PUT") and path == f"{single}/{one['id']}":
                one["body"] = body["body"]
                return 200, {}, {}
        return 404, {}, {"message": "Not Found"}

    def _of_issues(self, method: str, path: str, asked: Any, body: Any) -> tuple[int, dict[str, str], Any] | None:
        is_github = self.system == "github"
        root = "/repos/org/parcels/issues" if is_github else "/projects/12/issues"
        if path == root and method == "GET":
            (label,) = asked["labels"]
            found = [one for one in self.issues if label in [of["name"] if is_github else of for of in one["labels"]]]
            first = (int(asked["page"][0]) - 1) * self.page
            more = {"Link": f'<{self.url}{path}?page=2>; rel="next"'} if first + self.page < len(found) else {}
            return 200, more, found[first : first + self.page]
        if path == root and method == "POST":
            labels = body["labels"] if is_github else body["labels"].split(",")
            text = body["body" if is_github else "description"]
            return 201, {}, self.open_issue(US, body["title"], text, [] if self.drops_labels else labels)
        for one in self.issues:
            own = f"{root}/{one['number' if is_github else 'iid']}"
            if path == own and method in ("PATCH", "PUT"):
                event = {"close": "closed", "reopen": "opened"}.get(body.pop("state_event", ""), one["state"])
                one.update({"state": event, **body})
                return 200, {}, one
            if path == f"{own}/{'comments' if is_github else 'notes'}" and method == "POST":
                one["notes"].append(body["body"])
                return 201, {}, {}
            if path == f"{own}/labels" and method == "POST":
                one["labels"] += [{"name": name} for name in body["labels"]]
                return 200, {}, one["labels"]
        return None


def served(host: CodeHost) -> Iterator[CodeHost]:
    class Handler(BaseHTTPRequestHandler):
        def handle_any(self) -> None:
            length = int(self.headers.get("Content-Length") or 0)
            body = json.loads(self.rfile.read(length) or "null")
            host.tokens.append((self.headers["Authorization"] or "Bearer ")[7:] or self.headers["PRIVATE-TOKEN"] or "")
            status, headers, document = host.answer(self.command, self.path, body)
            content = json.dumps(document).encode()
            self.send_response(status)
            for name, value in {**headers, "Content-Length": str(len(content))}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(content)

        do_GET = do_POST = do_PATCH = do_PUT = handle_any  # noqa: N815

        def log_message(self, format: str, *args: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        host.url = f"http://127.0.0.1:{server.server_port}"
        thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        try:
            yield host
        finally:
            server.shutdown()
            thread.join()


@pytest.fixture(params=["github", "gitlab"])
def code_host(request: pytest.FixtureRequest) -> Iterator[CodeHost]:
    yield from served(CodeHost(request.param))


@pytest.fixture
def github() -> Iterator[CodeHost]:
    yield from served(CodeHost("github"))


@pytest.fixture
def gitlab() -> Iterator[CodeHost]:
    yield from served(CodeHost("gitlab"))
