"""Import of ENTRY/results.jsonl: a line per attempt and repeat.

Other files in the session's folder are used too: for its uid, the entry's file, and the machine.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from types import NoneType
from typing import Any, TypeAlias

from curator_bench.errors import Mistake
from curator_bench.files import safe_files
from curator_bench.files.codec import from_document, parsed
from curator_bench.importing.found_runs import Found, FoundRun, documents, moment_of, stable_uid
from curator_bench.store.records import RunEnd, RunStart, SessionRecord, StoredRun
from curator_bench.store.session_uid import FILE_NAME as SESSION_UID
from curator_bench.values import Place, Repeat, Run, Scalar, Verdict

Combine: TypeAlias = Callable[[Sequence[Repeat]], Mapping[str, Scalar]]
"""Combines the metrics of a run's repeats."""

_NEEDED = ("name", "session", "attempt", "repeat", "ended_at", "verdict")
_SHOWN = 60
_KINDS: Mapping[str, tuple[type, ...]] = {
    **dict.fromkeys(("name", "session", "verdict"), (str,)),
    "attempt": (int,),
    "repeat": (int, NoneType),
    "exec_time_s": (int, float, NoneType),
    "params": (dict, NoneType),
    "metrics": (dict, NoneType),
}


@dataclass(frozen=True, slots=True)
class _Line:
    place: Place
    said: Mapping[str, Any]
    started: datetime
    ended: datetime

    @property
    def repeat(self) -> int:
        return int(self.said["repeat"] or 0)

    def goes_on(self, other: _Line) -> bool:
        """True if this line continues the other's run: it is the next repeat, or a final line without a repeat."""
        same = all(self.said[name] == other.said[name] for name in ("name", "session", "attempt"))
        is_its_end = not self.repeat and self.said.get("uid") == other.said.get("uid") is not None
        return same and other.repeat > 0 and (self.repeat > other.repeat or is_its_end)


@dataclass(frozen=True, slots=True)
class _RunContext:
    """Facts from the files beside results.jsonl."""

    session_uid: str | None
    results_directory: str
    run: Run | None
    """Last run of the entry."""
    environment: Mapping[str, Any]


def recognizes(document: Mapping[str, Any]) -> bool:
    return {"metrics", "verdict"} <= document.keys()


def read(path: Path, combine: Combine) -> Iterator[Found]:
    around: dict[str, _RunContext] = {}
    for item in _groups(path):
        if isinstance(item, Mistake):
            yield item
            continue
        session = item[0].said["session"]
        if session not in around:
            around[session] = _context_of(path, session)
        yield _run(item, around[session], combine)


def _groups(path: Path) -> Iterator[list[_Line] | Mistake]:
    """Yield the lines of each run."""
    lines: list[_Line] = []
    for item in _lines(path):
        if isinstance(item, Mistake):
            yield item
            continue
        if lines and not item.goes_on(lines[-1]):
            yield lines
            lines = []
        lines.append(item)
    if lines:
        yield lines


def _lines(path: Path) -> Iterator[_Line | Mistake]:
    for item in documents(path):
        if isinstance(item, Mistake):
            yield item
            continue
        place, said = item
        problem = _problem(said)
        if problem:
            yield Mistake(place, "", f"{problem}, expected a line of results.jsonl")
            continue
        try:
            Verdict(said["verdict"])
            ended = moment_of(said["ended_at"])
            yield _Line(place, said, ended - timedelta(seconds=said.get("exec_time_s") or 0.0), ended)
        except (OverflowError, ValueError) as error:
            yield Mistake(place, "", str(error))


def _problem(said: Mapping[str, Any]) -> str | None:
    """Reason why this is not a line of results.jsonl; None if it is. Other values are checked later."""
    missing = [name for name in _NEEDED if name not in said]
    if missing:
        return f"{', '.join(missing)} missing"
    wrong = [name for name, kinds in _KINDS.items() if not isinstance(said.get(name), kinds)]
    return f"{wrong[0]}: found {str(said[wrong[0]])[:_SHOWN]!r}" if wrong else None


def _run(lines: Sequence[_Line], around: _RunContext, combine: Combine) -> FoundRun:
    first, last = lines[0], lines[-1]
    said = last.said
    repeats = tuple(
        Repeat(
            line.repeat,
            line.said.get("exit_code"),
            (line.ended - line.started).total_seconds(),
            line.said.get("metrics") or {},
        )
        for line in lines
        if line.repeat
    )
    session = _session(said["session"], around)
    end = RunEnd(
        verdict=Verdict(said["verdict"]),
        end=last.ended,
        duration=(last.ended - first.started).total_seconds(),
        exit_code=said.get("exit_code"),
        error=said.get("error") or None,
        metrics=combine(repeats) if repeats else {},
        params=said.get("params") or {},
        repeats=repeats,
    )
    uid = stable_uid("results", said["session"], said["name"], said["attempt"], first.ended)
    return FoundRun(
        StoredRun(session, None, _start(said, first.started, uid, around), end), first.place, recorded_as=last.ended
    )


def _start(said: Mapping[str, Any], start: datetime, uid: str, around: _RunContext) -> RunStart:
    beside = around.run if around.run is not None and around.run.name == said["name"] else Run(name="")
    return RunStart(
        name=said["name"],
        originalname=beside.entry or said["name"].partition("[")[0],
        path=beside.nodeid.partition("::")[0],
        nodeid=beside.nodeid or None,
        attempt=said["attempt"],
        hunt=beside.hunt or None,
        start=start,
        uid=uid,
        host=around.environment.get("host"),
        machine_id=around.environment.get("machine_id"),
    )


def _session(name: str, around: _RunContext) -> SessionRecord:
    return SessionRecord(name, around.results_directory, around.session_uid or stable_uid("results", name))


def _context_of(path: Path, session: str) -> _RunContext:
    run = _run_in(path.with_name("results.json"))
    folder = next((folder for folder in path.resolve().parents if folder.name == session), None)
    if folder is None:
        return _RunContext(None, "", run, {})
    uid = None
    with suppress(OSError, ValueError):
        uid = safe_files.read_text(folder / SESSION_UID).strip()
    hosts = list((folder / "env").glob("*.json"))
    environment = _object(hosts[0]) if len(hosts) == 1 else {}
    return _RunContext(uid, str(folder.parent), run, environment)


def _run_in(path: Path) -> Run | None:
    with suppress(ValueError):
        return from_document(Run, _object(path))
    return None


def _object(path: Path) -> Mapping[str, Any]:
    with suppress(OSError, ValueError):
        found = parsed(safe_files.read_text(path))
        return found if isinstance(found, dict) else {}
    return {}
