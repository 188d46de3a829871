"""Safe file names and link addresses for pages. Names from scripts and matrices are never used as they are."""

from __future__ import annotations

import hashlib
import os
import re
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from urllib.parse import quote, urlsplit

from curator_bench.files import safe_files
from curator_bench.report.site.folder import SiteFolder

_UNSAFE = re.compile(r"[^a-z0-9]+")
_LONGEST = 60
_SLUGS_KEPT = 10_000
"""Names of entries and sessions; each is asked for some hundred times in a build."""
_LOG_KEPT = 256 * 1024


@lru_cache(maxsize=_SLUGS_KEPT)
def slug(name: str, other: str) -> str:
    """Return a readable file name that is the same in every build. `other` distinguishes equal names."""
    readable = _UNSAFE.sub("-", name.lower()).strip("-")[:_LONGEST] or "unnamed"
    digest = hashlib.sha256(f"{name}\0{other}".encode("utf-8", "surrogatepass")).hexdigest()[:8]
    return f"{readable}-{digest}"


def web_address(url: str | None) -> str | None:
    """Return the address if it is http or https. Others, such as `javascript:`, must not become links."""
    if not url:
        return None
    try:
        parts = urlsplit(url.strip())
    except ValueError:
        return None
    return url.strip() if parts.scheme in ("http", "https") and parts.netloc else None


def commit_address(template: str | None, commit: str | None) -> str | None:
    """Return the page of a commit, from a template with `{commit}`."""
    if not template or not commit:
        return None
    return web_address(template.replace("{commit}", quote(commit, safe="")))


@dataclass(frozen=True, slots=True)
class Logs:
    """Links to logs: below an address, as copies in the dashboard, to pages of a server, or to the original files."""

    site: SiteFolder
    prefix: str | None = None
    is_copying: bool = False
    is_served: bool = False
    _known: dict[str, bool] = field(default_factory=dict)
    _copies: dict[str, str | None] = field(default_factory=dict)

    def address(self, path: str | None, results: str, run: str) -> str | None:
        """Return the address of a log from the top of the dashboard, or None without a log."""
        if not path:
            return None
        if self.prefix:
            return self._below_prefix(path, results)
        if not self._is_there(path):
            return None
        if self.is_served:
            return f"log.html?run={quote(run, safe='')}"
        if self.is_copying:
            name = f"logs/{slug(run, path)}.txt"
            if name not in self._copies:
                self._copies[name] = self._copied(path, name)
            return self._copies[name]
        return quote(os.path.relpath(path, self.site.path.absolute()))

    def is_copy(self, address: str) -> bool:
        """Return True if the log is a file of the dashboard."""
        return address in self._copies

    def _below_prefix(self, path: str, results: str) -> str | None:
        below = os.path.relpath(path, results) if results and path.startswith(results) else path.lstrip("/")
        return web_address(f"{(self.prefix or '').rstrip('/')}/{quote(below)}")

    def _is_there(self, path: str) -> bool:
        if path not in self._known:
            self._known[path] = os.path.isfile(path)
        return self._known[path]

    def _copied(self, path: str, name: str) -> str | None:
        """Copy the end of the log as a text file, so that a browser never renders what a script printed."""
        try:
            with safe_files.open_file(Path(path)) as source:
                source.seek(max(0, os.fstat(source.fileno()).st_size - _LOG_KEPT))
                content = source.read(_LOG_KEPT)
        except OSError:
            return None
        self.site.write(name, content)
        return name
