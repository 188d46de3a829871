"""The sessions that run, as their folders tell: how far they are, each entry that was begun, and the log of each."""

from __future__ import annotations

import csv
import math
import os
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from curator_bench.files import safe_files
from curator_bench.files.json_files import read_object, tail
from curator_bench.report.live import plain
from curator_bench.report.progress import ProgressSnapshot
from curator_bench.report.progress_output import snapshot_in
from curator_bench.report.server.log_reader import LogPlace, newest_log
from curator_bench.report.session_runs import CLAIM, RESULTS, STATUS, entries_below, read_run
from curator_bench.report.site.links import slug
from curator_bench.values import RunRecord
from curator_bench.words import check_line, readable_bytes, readable_seconds

PROGRESS = "progress.json"
GPU_COLUMNS = ("time", "gpu", "uuid", "utilization_percent", "memory_used_bytes")
"""The first columns of gpustats.csv."""
_UID = ".session-uid"
_LOOKED_AT_EVERY_S = 1.0
_SHARE_OF_A_CORE = 0.1
"""Looking at a session of thousands of entries takes a while, on a machine that may be measuring."""
_LOOKED_FOR_EVERY_S = 3.0
_LARGEST_STATUS = 1 << 16
_LONGEST_S = 1e8
_MOST_DIGITS = 15
_FINE = ("passed", "skipped")
_ORDER = {"running": 0, "passed": 2, "skipped": 2}


@dataclass(frozen=True, slots=True)
class LiveEntry:
    """An entry of a session that was begun."""

    path: str
    """Its folder, from that of the session."""
    name: str
    state: str
    """`running`, a verdict, or `ended` if nothing is known of its end."""
    doing: str = ""
    """The present state of a run, such as `starting Ray`."""
    host: str = ""
    attempt: int = 1
    since: datetime | None = None
    elapsed: str = ""
    memory: str = ""
    gpus: tuple[str, ...] = ()
    last_line: str = ""

    @property
    def is_running(self) -> bool:
        return self.state == "running"


@dataclass(frozen=True, slots=True)
class LiveSession:
    """A session that runs, or has ended since the server looks."""

    folder: Path
    state: str
    """`running`, `ended`, or `killed`."""
    snapshot: ProgressSnapshot | None
    entries: tuple[LiveEntry, ...]
    uid: str = ""
    ended_at: float = math.inf
    """When its end was seen, by the monotonic clock."""

    @property
    def name(self) -> str:
        return self.folder.name

    @property
    def key(self) -> str:
        """A name that is this session's alone, also if two results directories have one of its name."""
        return slug(self.name, str(self.folder))

    @property
    def page(self) -> str:
        """The page of the session in the dashboard."""
        return f"sessions/{slug(self.name, self.uid)}.html"


class LiveSessions:
    """Looks for sessions that run, at most once in a while and only when somebody asks."""

    def __init__(
        self,
        is_under_way: Callable[[Path], bool],
        results: Callable[[], Iterable[Path]],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`is_under_way` tells it of a session's folder; `results` are the results directories."""
        self._is_under_way, self._results, self._clock = is_under_way, results, clock
        self._lock = threading.Lock()
        self._running: list[Path] = []
        self._ended: dict[Path, float] = {}
        """When the end of each session was seen."""
        self._looked_for = -math.inf
        self._next_look = -math.inf
        self._found: tuple[LiveSession, ...] = ()
        self._finished: dict[Path, tuple[tuple[int, int], LiveEntry]] = {}

    def now(self) -> tuple[LiveSession, ...]:
        """Return the sessions that run, then those that ended meanwhile."""
        with self._lock:
            if (began := self._clock()) >= self._next_look:
                self._look_for()
                running = [self._session(folder, math.inf) for folder in self._running]
                ended = [self._session(folder, at) for folder, at in self._ended.items()]
                self._found = (*running, *reversed(ended))
                done = self._clock()
                self._next_look = done + max(_LOOKED_AT_EVERY_S, (done - began) / _SHARE_OF_A_CORE)
            return self._found

    def find(self, key: str) -> LiveSession | None:
        return next((one for one in self.now() if one.key == key), None)

    def running(self) -> int:
        return sum(one.state == "running" for one in self.now())

    def _look_for(self) -> None:
        before = self._running
        if self._clock() - self._looked_for > _LOOKED_FOR_EVERY_S:
            folders = dict.fromkeys(folder for results in self._results() for folder in _folders_in(results))
            self._looked_for = self._clock()
        else:
            folders = dict.fromkeys(before)
        self._running = [folder for folder in folders if self._is_under_way(folder)]
        gone = [folder for folder in before if folder not in self._running]
        kept = {folder: at for folder, at in self._ended.items() if folder not in self._running and folder.is_dir()}
        self._ended = kept | dict.fromkeys(gone, self._clock())

    def _session(self, folder: Path, ended_at: float) -> LiveSession:
        is_running = ended_at == math.inf
        document = read_object(folder / PROGRESS, below=folder)
        snapshot = snapshot_in(document)
        state = "running" if is_running else "ended" if document.get("state") == "ended" else "killed"
        entries = [
            self._entry(inner, names, folder, is_running) for inner, names in entries_below(folder) if inner != folder
        ]
        entries = _with_expectations(entries, snapshot if is_running else None)
        entries.sort(key=lambda one: (_ORDER.get(one.state, 1), one.name))
        return LiveSession(folder, state, snapshot, tuple(entries), _uid(folder), ended_at)

    def _entry(self, folder: Path, names: frozenset[str], session_dir: Path, is_running: bool) -> LiveEntry:
        if is_running and CLAIM in names:
            return _running(folder, session_dir)
        if RESULTS in names:
            return self._finished_entry(folder, session_dir)
        status = read_object(folder / STATUS, below=session_dir, most_bytes=_LARGEST_STATUS)
        verdict = status.get("verdict")
        return replace(
            _begun(folder, session_dir, status), state=plain(verdict) if isinstance(verdict, str) else "ended"
        )

    def _finished_entry(self, folder: Path, session_dir: Path) -> LiveEntry:
        """Read a result once: it is renamed into place, so another one is another file."""
        try:
            found = os.lstat(folder / RESULTS)
        except OSError:
            return _begun(folder, session_dir, {})
        mark = found.st_mtime_ns, found.st_ino
        known = self._finished.get(folder)
        if known is None or known[0] != mark:
            run = read_run(folder / RESULTS, session_dir)
            entry = _begun(folder, session_dir, {})
            if run is not None:
                took = readable_seconds(run.duration_s)
                entry = replace(entry, name=run.name, state=str(run.verdict), host=run.host or "", elapsed=took)
                entry = replace(entry, attempt=run.attempt, since=_moment(run.started_at), last_line=_why(run)[:200])
            known = self._finished[folder] = (mark, entry)
        return known[1]


def _folders_in(results: Path) -> Iterator[Path]:
    """Yield the folders of sessions that are ours: in a shared folder, others may have any name."""
    try:
        with os.scandir(results) as found:
            yield from sorted(Path(one.path) for one in found if one.is_dir(follow_symlinks=False) and _is_ours(one))
    except OSError:
        return


def _why(run: RunRecord) -> str:
    """Return why a run did not pass, on one line."""
    return plain(run.error or "; ".join(map(check_line, run.unmet)))


def _is_ours(folder: os.DirEntry[str]) -> bool:
    return folder.stat(follow_symlinks=False).st_uid == os.geteuid()


def _uid(folder: Path) -> str:
    try:
        return safe_files.read_text(folder / _UID, below=folder, most_bytes=4096).strip()
    except (OSError, ValueError):
        return ""


def _begun(folder: Path, session_dir: Path, status: Mapping[str, Any]) -> LiveEntry:
    path = folder.relative_to(session_dir).as_posix()
    attempt = status.get("attempt")
    return LiveEntry(
        path=path,
        name=plain(str(status.get("name") or path)),
        state="ended",
        doing=plain(str(status.get("state", ""))),
        host=plain(str(status.get("host", ""))),
        attempt=attempt if isinstance(attempt, int) else 1,
        elapsed=_seconds(status.get("elapsed_s")),
        last_line=plain(str(status.get("last_line", ""))),
    )


def _seconds(value: Any) -> str:
    return readable_seconds(value) if isinstance(value, int | float) and 0 <= value < _LONGEST_S else ""


def _running(folder: Path, session_dir: Path) -> LiveEntry:
    status = read_object(folder / STATUS, below=session_dir, most_bytes=_LARGEST_STATUS)
    found = newest_log(folder, session_dir)
    execution = found[0] if found else folder
    return replace(
        _begun(folder, session_dir, status),
        state="running",
        since=_since(folder, session_dir, status.get("elapsed_s")),
        memory=_memory(execution, session_dir),
        gpus=_gpus(execution, session_dir),
    )


def _since(folder: Path, session_dir: Path, elapsed_s: Any) -> datetime | None:
    """Return the start of a run, from the time of its status and the seconds it had run by then."""
    if not isinstance(elapsed_s, int | float) or not 0 <= elapsed_s < _LONGEST_S:
        return None
    try:
        written = safe_files.time_of(folder / STATUS, below=session_dir)
    except OSError:
        return None
    return datetime.fromtimestamp(written - elapsed_s, UTC)


def _moment(text: str) -> datetime | None:
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        return None


def _memory(folder: Path, session_dir: Path) -> str:
    """Return the newest reading of memory.csv."""
    row = next(iter(_rows(tail(folder / "memory.csv", 1, 1024, below=session_dir))), [])
    return _bytes(row[1]) if len(row) == 2 else ""


def _gpus(folder: Path, session_dir: Path) -> tuple[str, ...]:
    """Return the newest reading of each GPU in gpustats.csv."""
    newest: dict[str, str] = {}
    for row in _rows(tail(folder / "gpustats.csv", 64, 16_384, below=session_dir)):
        known = dict(zip(GPU_COLUMNS, row, strict=False))
        if known.get("gpu", "").isdecimal() and len(known["gpu"]) <= _MOST_DIGITS and len(row) > len(GPU_COLUMNS):
            used = _bytes(known["memory_used_bytes"])
            parts = [f"{known['utilization_percent']} %"] if known["utilization_percent"].isdecimal() else []
            parts += [used] if used else []
            newest[known["gpu"]] = f"GPU {known['gpu']}: {', '.join(parts) or 'no reading'}"
    return tuple(newest[number] for number in sorted(newest, key=int))


def _bytes(text: str) -> str:
    return readable_bytes(int(text)) if text.isdecimal() and len(text) <= _MOST_DIGITS else ""


def _rows(lines: Sequence[str]) -> list[list[str]]:
    try:
        return list(csv.reader(lines))
    except csv.Error:
        return []


def _with_expectations(entries: Sequence[LiveEntry], snapshot: ProgressSnapshot | None) -> list[LiveEntry]:
    """Add how long a run usually takes, and the GPUs it has in a fleet, which its own folder does not tell."""
    known = {run.name: run for run in snapshot.running} if snapshot else {}
    found = []
    for one in entries:
        run = known.get(one.name)
        if run is not None and one.is_running:
            of = f" of about {readable_seconds(run.expected_s)}" if run.expected_s else ""
            gpus = one.gpus or ((f"GPU {', '.join(run.gpus)}",) if run.gpus else ())
            one = replace(one, elapsed=f"{one.elapsed or readable_seconds(run.elapsed_s)}{of}", gpus=gpus)
        found.append(one)
    return found


def log_of(session: LiveSession, path: str) -> LogPlace | None:
    """Return the log of an entry of a session. Only entries that were found there have one."""
    if all(path != one.path for one in session.entries):
        return None
    found = newest_log(session.folder / path, session.folder)
    return found[1] if found else None
