"""The pages of the server: the dashboard, the sessions that run, the log of a run, and news for open pages."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from curator_bench.files import safe_files
from curator_bench.files.codec import json_line
from curator_bench.report.progress_output import head
from curator_bench.report.server.live_sessions import LiveSession, LiveSessions, log_of
from curator_bench.report.server.log_reader import LogPiece, LogPlace, read_on
from curator_bench.report.server.web_server import HTML, JSON, TEXT, Answer
from curator_bench.report.site import build
from curator_bench.report.site.pages import environment

_HERE = Path(__file__).parent
_ASSETS = (_HERE / "assets", *(Path(build.__file__).with_name(name) for name in ("assets", "flame_assets")))
_KINDS = {
    ".html": HTML,
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".svg": "image/svg+xml",
    ".txt": TEXT,
}
_LARGEST = 2**30
_PAGE_WITHIN_S, _DATA_WITHIN_S = 1.0, 20.0
"""A page that is being built for so long is answered with its progress; a program waits for its data."""
_LOOKS_EVERY_S = 0.05
_MOST_SHOWN = 300
"""The number of entries of a session that are listed."""


@dataclass(frozen=True, slots=True)
class Building:
    """The progress of building the dashboard."""

    is_there: bool = False
    """True once it was built."""
    doing: str = ""
    """The present step in words; empty if nothing is being built."""
    as_of: float = -math.inf
    """When the database was read that is shown, by the monotonic clock."""
    problem: str = ""
    """Why it could not be brought up to date."""

    @property
    def is_unfinished(self) -> bool:
        """True if pages may be missing."""
        return bool(self.doing) or not self.is_there


@dataclass(frozen=True, slots=True)
class RecordedLog:
    """The log of a recorded run."""

    entry: str
    session: str
    place: LogPlace | None


class ServedPages:
    """Answers requests. Nothing a client names becomes a path: it is looked up among what is there."""

    def __init__(
        self,
        site: Path,
        settings: build.Settings,
        building: Callable[[], Building],
        want: Callable[[str], None],
        live: LiveSessions,
        recorded: Callable[[str], RecordedLog | None],
    ) -> None:
        """`site` is the folder of the dashboard, and `want` has a file of it built next.

        `recorded` finds the log of a run by its uid.
        """
        self._site, self._building, self._want, self._live, self._recorded = site, building, want, live, recorded
        self._templates = environment(settings.commit_url, build.facts_of(settings), _HERE / "templates")

    def answer(self, path: str, query: Mapping[str, str]) -> Answer | None:
        building = self._building()  # so that it hears that somebody looks
        match path or "index.html":
            case "now.html":
                return self._page(
                    "now.html", "now", sessions=self._live.now(), most=_MOST_SHOWN, words=head, page_of=self._page_of
                )
            case "log.html":
                return self._log_page(query)
            case "log.json":
                return self._log_piece(query)
            case "state.json":
                return self._state(building, query.get("page", ""))
            case name:
                return self._built(name, building)

    def _page(self, name: str, template: str, **shown: Any) -> Answer:
        text = self._templates.get_template(f"{template}.html").render(top="../" * name.count("/"), page=name, **shown)
        return Answer(text.encode("utf-8", "replace"))

    def _built(self, name: str, building: Building) -> Answer | None:
        """Answer with a file of the dashboard. If it is not there yet, have it built next and wait a little."""
        if building.is_unfinished:
            self._want(name)
        is_page = name.endswith(".html")
        deadline = time.monotonic() + (_PAGE_WITHIN_S if is_page else _DATA_WITHIN_S)
        while (found := self._file(name)) is None and building.is_unfinished and time.monotonic() < deadline:
            time.sleep(_LOOKS_EVERY_S)
            building = self._building()
        if found is None and is_page and building.is_unfinished:
            return self._page(name, "building", building=building)
        return found

    def _file(self, name: str) -> Answer | None:
        kind = _KINDS.get(PurePosixPath(name).suffix)
        parts = name.split("/")
        if kind is None or any(not part or part.startswith(".") or "\0" in part for part in parts):
            return None
        if parts[0] == "assets":
            places = [(folder / parts[-1], folder) for folder in _ASSETS if len(parts) == 2]
        else:
            places = [(self._site / name, self._site)]
        for place, below in places:
            try:
                return Answer(safe_files.read_bytes(place, below=below, most_bytes=_LARGEST), kind)
            except OSError:
                continue
        return None

    def _page_of(self, session: LiveSession) -> str:
        """Return the page of a session, once that has ended and the page shows its end."""
        is_shown = self._building().as_of > session.ended_at
        return session.page if is_shown and safe_files.is_file(self._site / session.page, below=self._site) else ""

    def _state(self, building: Building, page: str) -> Answer:
        """Tell an open page when its file was written, and what goes on."""
        return _json(
            written=self._written(page or "index.html"),
            is_there=building.is_there,
            building=building.doing,
            problem=building.problem,
            running=self._live.running(),
        )

    def _written(self, page: str) -> str:
        if _KINDS.get(PurePosixPath(page).suffix) != HTML or ".." in page.split("/"):
            return ""
        try:
            return str(safe_files.time_of(self._site / page, below=self._site))
        except (OSError, ValueError):
            return ""

    def _log_page(self, query: Mapping[str, str]) -> Answer | None:
        found = self._log(query)
        if found is None:
            return None
        piece = _read(found.place)
        return self._page("log.html", "log", log=found, piece=piece, asked=dict(query))

    def _log_piece(self, query: Mapping[str, str]) -> Answer | None:
        found = self._log(query)
        if found is None:
            return None
        piece = _read(found.place, query.get("position", ""))
        return _json(
            position=piece.position,
            lines=piece.lines,
            open_line=piece.open_line,
            is_new=piece.is_new,
            skipped=piece.skipped,
            why_not=piece.why_not,
            state=found.state,
            is_running=found.is_running,
            page=found.page,
        )

    def _log(self, query: Mapping[str, str]) -> _ShownLog | None:
        if "run" in query:
            recorded = self._recorded(query["run"])
            return None if recorded is None else _ShownLog(recorded.entry, recorded.session, recorded.place)
        session = self._live.find(query.get("session", ""))
        if session is None:
            return None
        entry = next((one for one in session.entries if one.path == query.get("entry")), None)
        if entry is None:
            return None
        page = self._page_of(session)
        doing = f"({entry.doing})" if entry.is_running and entry.doing not in ("", "running") else ""
        state = " ".join(filter(None, (entry.state, doing, "" if entry.is_running else entry.elapsed)))
        return _ShownLog(entry.name, session.name, log_of(session, entry.path), state, entry.is_running, page)


@dataclass(frozen=True, slots=True)
class _ShownLog:
    entry: str
    session: str
    place: LogPlace | None
    state: str = ""
    is_running: bool = False
    page: str = ""
    """The page of the session, once that has ended and the page is there."""


def _read(place: LogPlace | None, position: str = "") -> LogPiece:
    return read_on(place, position) if place else LogPiece("", (), "", True, 0, "There is no log yet.")


def _json(**values: Any) -> Answer:
    return Answer(json_line(values), JSON)
