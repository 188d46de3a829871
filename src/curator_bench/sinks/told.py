"""What sinks are told: the session, a run that starts, its result, the summary. Secrets are masked in it."""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from curator_bench.values import Check, Repeat, Scalar, Verdict

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

_Value = TypeVar("_Value", bound="DataclassInstance")
_INTERRUPTED = 2
"""The exit status of pytest when it was stopped."""
_NOT_FINITE = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}


@dataclass(frozen=True, slots=True)
class Subject:
    """A package under test, as it was found."""

    package: str
    version: str | None = None
    commit: str | None = None
    dirty: bool | None = None


@dataclass(frozen=True, slots=True)
class Session:
    """The session that an invocation of pytest joins. Each invocation tells of it, and so does `resend`."""

    name: str
    directory: str
    invocation: str = ""
    started_at: str = ""
    """UTC, ISO 8601; of this invocation."""
    runs_expected: int = 0
    reason: str = ""
    commit: str = ""
    branch: str = ""
    dirty: bool | None = None
    subjects: tuple[Subject, ...] = ()
    viewer_url: str = ""
    ci_run_url: str = ""
    host: str = ""
    environment: Mapping[str, Scalar] = field(default_factory=dict)
    """The machine and its software, nested names joined by dots."""


@dataclass(frozen=True, slots=True)
class Run:
    """A run that has started."""

    nodeid: str
    name: str
    entry: str
    started_at: str
    directory: str = ""


@dataclass(frozen=True, slots=True)
class Result:
    """A run that has ended and been judged. A sink may be told of one a second time, when its teardown failed.

    Where an entry was run again, after an `error` or because more runs were asked for, sinks are told of each of its
    runs, in order; what came of the last is what came of the entry.
    """

    name: str
    entry: str
    nodeid: str
    verdict: Verdict
    started_at: str
    ended_at: str
    duration_s: float
    uid: str = ""
    attempt: int = 1
    is_last: bool = True
    """Whether this is what came of the entry: no further attempt followed."""
    definition_hash: str = ""
    """Of what was run: only runs with the same one are to be compared."""
    axes: Mapping[str, str] = field(default_factory=dict)
    marks: tuple[str, ...] = ()
    error: str = ""
    exit_code: int | None = None
    command: tuple[str, ...] = ()
    directory: str = ""
    log_path: str = ""
    shown_log_path: str = ""
    """The same for people: inside a container, where the host has it."""
    log_tail: tuple[str, ...] = ()
    params: Mapping[str, Any] = field(default_factory=dict)
    metrics: Mapping[str, Scalar] = field(default_factory=dict)
    repeats: tuple[Repeat, ...] = ()
    requirements: tuple[Check, ...] = ()
    warnings: tuple[str, ...] = ()
    host: str = ""
    gpus: tuple[str, ...] = ()
    ray_version: str = ""
    ray_num_cpus: float | None = None
    ray_num_gpus: float | None = None
    sink_data: Mapping[str, Any] = field(default_factory=dict)
    """What the entry's `sink_data` has for this sink."""

    @property
    def passed(self) -> bool:
        return self.verdict is Verdict.PASSED

    @property
    def title(self) -> str:
        """Its name, which its earlier attempts do not take from it."""
        return self.name if self.is_last else f"{self.name} (attempt {self.attempt})"

    @property
    def folder(self) -> Path:
        """Where the files of this attempt are; `directory` is the entry's, with those of the first in it."""
        return Path(self.directory) if self.attempt == 1 else Path(self.directory, f"attempt_{self.attempt}")

    @property
    def unmet(self) -> tuple[Check, ...]:
        """The requirements that were not met."""
        return tuple(check for check in self.requirements if check.is_unmet)

    @property
    def inconclusive(self) -> tuple[Check, ...]:
        """The gates that could not be decided; the `note` of each says what would decide it."""
        return tuple(check for check in self.requirements if check.is_inconclusive)


def told_inconclusive(check: Check) -> str:
    """One line: which gate could not be decided, and what would decide it."""
    limit = f"{check.bound} {check.limit:.3g}" if isinstance(check.limit, int | float) else check.bound
    return f"{check.metric}, {limit}: inconclusive{f': {check.note}' if check.note else ''}"


@dataclass(frozen=True, slots=True)
class Summary:
    """The end of an invocation."""

    counts: Mapping[str, int]
    """Its runs by verdict."""
    started_at: str
    ended_at: str
    duration_s: float
    exit_status: int | None = None
    """Of pytest; None where it was killed."""

    @property
    def interrupted(self) -> bool:
        return self.exit_status in (None, _INTERRUPTED) or bool(self.counts.get(Verdict.INTERRUPTED))


Told = Session | Run | Result | Summary
_KINDS: dict[str, type[Any]] = {kind.__name__: kind for kind in (Session, Run, Result, Summary)}


def to_document(value: Told) -> dict[str, Any]:
    """Builtin values for JSON; numbers that it cannot hold become the texts that all our files have for them."""
    fields: dict[str, Any] = _strict(dataclasses.asdict(value))
    return {"kind": type(value).__name__, **fields}


def from_document(document: Mapping[str, Any]) -> Told:
    """What `to_document` made, or what a report of pytest carries and more; names that are not known are left out.

    Raises ValueError.
    """
    try:
        made: Told = _told(document)
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"this is nothing a sink is told: {error!r}") from error
    return made


def _told(document: Mapping[str, Any]) -> Any:
    kind = _KINDS[document["kind"]]
    if kind is Session:
        return _made(kind, document, subjects=_all_made(Subject, document.get("subjects")))
    if kind is not Result:
        return _made(kind, document)
    return _made(
        kind,
        document,
        verdict=Verdict(document["verdict"]),
        metrics=_numbers(document.get("metrics") or {}),
        repeats=tuple(
            _made(Repeat, repeat, metrics=_numbers(repeat.get("metrics") or {}))
            for repeat in document.get("repeats") or ()
        ),
        requirements=_all_made(Check, document.get("requirements")),
        **{name: tuple(document.get(name) or ()) for name in ("marks", "command", "log_tail", "warnings", "gpus")},
    )


def _made(kind: type[_Value], document: Mapping[str, Any], **given: Any) -> _Value:
    known = {field.name for field in dataclasses.fields(kind)}
    return kind(**{name: value for name, value in document.items() if name in known} | given)


def _all_made(kind: type[_Value], documents: Any) -> tuple[_Value, ...]:
    return tuple(_made(kind, document) for document in documents or ())


def _numbers(metrics: Mapping[str, Scalar]) -> dict[str, Scalar]:
    return {name: _NOT_FINITE.get(value, value) if isinstance(value, str) else value for name, value in metrics.items()}


def _strict(value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        return next(text for text, number in _NOT_FINITE.items() if number == value or value != value)
    if isinstance(value, Mapping):
        return {str(name): _strict(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [_strict(item) for item in value]
    return value if value is None or isinstance(value, str | int | float) else str(value)


def line_of(document: Mapping[str, Any]) -> bytes:
    """One line of JSON."""
    return (json.dumps(document, ensure_ascii=False) + "\n").encode("utf-8", "replace")
