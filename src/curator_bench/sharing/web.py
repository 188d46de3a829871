"""Requests to a web interface with a token. The token goes to one host only, and into no message."""

from __future__ import annotations

import ipaddress
import json
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from email.message import Message
from http.client import HTTPException, HTTPMessage
from typing import IO, Any, TypeVar
from urllib.parse import urlencode, urlsplit

from curator_bench.errors import BenchError
from curator_bench.masking import Mask

T = TypeVar("T")
_WAITS_S = 30.0
_LONGEST_ANSWER = 64 * 2**20
_SAID = 300
_TRIES = 5
_LONGEST_PAUSE_S = 60.0
_MOST_PAGES = 100


class Refused(BenchError):
    """The server does not allow what was asked (401, 403), or hides it (404)."""


class Unavailable(Exception):
    """The server cannot answer now: try again, after so many seconds if it says how many."""

    def __init__(self, problem: str, after_s: float | None = None) -> None:
        super().__init__(problem)
        self.after_s = after_s


def insist(act: Callable[[], T], shown: str, may: str, sleep: Callable[[float], None] = time.sleep) -> T:
    """Do something that may be repeated, until the server can answer. Raises BenchError.

    `shown` names the place and `may` the permission it needs, for messages. An action that writes must look first
    whether it has been done: the answer of a server that is unavailable does not tell.
    """
    pause_s = 1.0
    for left in reversed(range(_TRIES)):
        try:
            return act()
        except Refused as error:
            raise BenchError(f"{shown}: no permission ({error}): {may}") from error
        except Unavailable as error:
            if not left:
                raise BenchError(f"{shown}: {error}; tried {_TRIES} times") from error
            sleep(min(pause_s if error.after_s is None else error.after_s, _LONGEST_PAUSE_S))
            pause_s *= 2
    raise AssertionError("unreachable")


@dataclass(frozen=True, slots=True)
class Answer:
    """A document, and whether there is another page of it."""

    document: Any
    has_more: bool = False


@dataclass(frozen=True, slots=True)
class Api:
    """A web interface at a URL, which must be https, or on this machine."""

    url: str
    token: str = field(repr=False)
    header: str
    """Name of the header with the token."""
    scheme: str = ""
    """Word before the token in the header."""

    def __post_init__(self) -> None:
        address = urlsplit(self.url)
        if address.scheme != "https" and not (address.scheme == "http" and _is_loopback(address.hostname)):
            raise BenchError(f"{self._hidden(self.url)}: a token is sent by https:// only")

    def get(self, path: str, page: int | None = None) -> Answer:
        """Return a document, or one page of a list."""
        pages = urlencode({"per_page": 100, "page": page}) if page else ""
        return self._ask("GET", self.url + path + ("&" if "?" in path else "?") * bool(pages) + pages)

    def pages(self, path: str) -> Iterator[Any]:
        """Yield what a list has, of all its pages. Raises BenchError if it is none."""
        for page in range(1, _MOST_PAGES + 1):
            answer = self.get(path, page)
            if not isinstance(answer.document, list):
                raise BenchError(f"{self.url}{path}: found {type(answer.document).__name__}, expected a list")
            yield from answer.document
            if not answer.has_more:
                return

    def send(self, method: str, path: str, document: Mapping[str, Any]) -> Answer:
        return self._ask(method, self.url + path, document)

    def _ask(self, method: str, url: str, document: Mapping[str, Any] | None = None) -> Answer:
        """Raises Refused, Unavailable, and BenchError for any other answer than a document."""
        headers = {"Accept": "application/json", "User-Agent": "curator-bench", self.header: self._secret()}
        body = None if document is None else json.dumps(document).encode()
        if body is not None:
            headers["Content-Type"] = "application/json"
        request = urllib.request.Request(url, data=body, headers=headers, method=method)
        try:
            with _opener(url).open(request, timeout=_WAITS_S) as answer:
                return Answer(_document(answer.read(_LONGEST_ANSWER)), 'rel="next"' in (answer.headers["Link"] or ""))
        except urllib.error.HTTPError as error:
            with error:
                raise self._problem(error, url) from None
        except (OSError, HTTPException) as error:
            reason = getattr(error, "reason", None) or error
            raise Unavailable(f"{self._hidden(url)} cannot be reached: {self._hidden(str(reason))}") from None
        except ValueError as error:
            raise BenchError(f"{self._hidden(url)}: the answer is no JSON: {error}") from None

    def _secret(self) -> str:
        return f"{self.scheme} {self.token}".strip()

    def _problem(self, error: urllib.error.HTTPError, url: str) -> Exception:
        text = f"{error.code} {self._hidden(_said(error))}"
        is_limited = error.headers["Retry-After"] is not None or error.headers["X-RateLimit-Remaining"] == "0"
        if error.code == 429 or error.code >= 500 or (error.code == 403 and is_limited):
            return Unavailable(f"{self._hidden(url)}: {text}", _seconds(error.headers))
        if error.code in (401, 403, 404):
            return Refused(text)
        return BenchError(f"{self._hidden(url)}: {text}")

    def _hidden(self, text: str) -> str:
        return Mask(frozenset([self.token])).hide(text)


class _SameHost(urllib.request.HTTPRedirectHandler):
    """Follows no redirect to another host, which would get the token, and none of what writes."""

    def redirect_request(
        self, req: urllib.request.Request, fp: IO[bytes], code: int, msg: str, headers: HTTPMessage, newurl: str
    ) -> urllib.request.Request | None:
        if req.get_method() != "GET":  # it would become a GET, without what was to be sent
            raise BenchError(f"{urlsplit(req.full_url).netloc} redirects a {req.get_method()}: not followed")
        if urlsplit(newurl)[:2] != urlsplit(req.full_url)[:2]:
            raise BenchError(f"{urlsplit(req.full_url).netloc} redirects to {urlsplit(newurl).netloc}: not followed")
        return super().redirect_request(req, fp, code, msg, headers, newurl)


def _opener(url: str) -> urllib.request.OpenerDirector:
    direct = [urllib.request.ProxyHandler({})] if _is_loopback(urlsplit(url).hostname) else []
    return urllib.request.build_opener(_SameHost, *direct)


def _is_loopback(host: str | None) -> bool:
    with suppress(ValueError):
        return ipaddress.ip_address(host or "").is_loopback
    return host == "localhost"


def _document(content: bytes) -> Any:
    return json.loads(content) if content else None


def _said(error: urllib.error.HTTPError) -> str:
    """Return what the server said, in a line."""
    content = b""
    with suppress(OSError, HTTPException):
        content = error.read(2**16)
    try:
        said = json.loads(content)["message"]
    except (ValueError, KeyError, TypeError):
        said = error.reason
    return " ".join(str(said).split())[:_SAID]


def _seconds(headers: Message) -> float | None:
    try:
        return max(float(headers["Retry-After"]), 0.0)
    except (KeyError, TypeError, ValueError):
        return None
