"""Names of files, and addresses that may stand in a link: what scripts and matrices call things decides neither."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import quote, urlsplit

from curator_bench import safe_files

_UNSAFE = re.compile(r"[^a-z0-9]+")
_LONGEST = 60
_LOG_KEPT = 256 * 1024


def slug(name: str, other: str) -> str:
    """A file name that says what it is of, the same in every build; `other` tells what has the same name apart."""
    readable = _UNSAFE.sub("-", name.lower()).strip("-")[:_LONGEST] or "unnamed"
    digest = hashlib.sha256(f"{name}\0{other}".encode("utf-8", "surrogatepass")).hexdigest()[:8]
    return f"{readable}-{digest}"


def web_address(url: str | None) -> str | None:
    """The address where it is one of the web; anything else (`javascript:`, say) is not made a link."""
    if not url:
        return None
    try:
        parts = urlsplit(url.strip())
    except ValueError:
        return None
    return url.strip() if parts.scheme in ("http", "https") and parts.netloc else None


def commit_address(template: str | None, commit: str | None) -> str | None:
    """Where a commit is shown: `{commit}` in the template is filled in."""
    if not template or not commit:
        return None
    return web_address(template.replace("{commit}", quote(commit, safe="")))


@dataclass(frozen=True, slots=True)
class Logs:
    """How the site links to logs: below an address, as copies of its own, or to the files where they are."""

    site: Path
    """Where the site will stand."""
    building: Path
    """Where it is being written."""
    prefix: str | None = None
    is_copying: bool = False
    _known: dict[str, bool] = field(default_factory=dict)

    def address(self, path: str | None, results: str, run: str) -> str | None:
        """From the top of the site; None where there is no log to link to."""
        if not path:
            return None
        if self.prefix:
            return self._below_prefix(path, results)
        if not self._is_there(path):
            return None
        if self.is_copying:
            return self._copied(path, run)
        return quote(os.path.relpath(path, self.site))

    def _below_prefix(self, path: str, results: str) -> str | None:
        below = os.path.relpath(path, results) if results and path.startswith(results) else path.lstrip("/")
        return web_address(f"{(self.prefix or '').rstrip('/')}/{quote(below)}")

    def _is_there(self, path: str) -> bool:
        if path not in self._known:
            self._known[path] = os.path.isfile(path)
        return self._known[path]

    def _copied(self, path: str, run: str) -> str | None:
        """The end of the log, as a text: a page that a script printed is not to be shown as one."""
        name = f"logs/{slug(run, path)}.txt"
        target = self.building / name
        try:
            target.parent.mkdir(exist_ok=True)
            with safe_files.open_file(Path(path)) as source, target.open("wb") as copy:
                source.seek(max(0, os.fstat(source.fileno()).st_size - _LOG_KEPT))
                shutil.copyfileobj(source, copy)
        except OSError:
            return None
        return name
