"""The gates of one entry: the metrics of its runs against its history.

The database is read once per item, before anything is measured again; also without --benchmark, where there is one.
A database that cannot be read fails no run: that is a warning.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pytest

from curator_bench.collection import BENCHMARKS
from curator_bench.errors import BenchError
from curator_bench.matrix import definition_hash
from curator_bench.report.sparkline import drawn
from curator_bench.rootdir import name_in_project
from curator_bench.runner.policy import GateState
from curator_bench.runner.run_keys import MACHINE
from curator_bench.runner.session import provenance_of
from curator_bench.store.gate_history import GateHistory, read_gate_history
from curator_bench.store.queries import EntryKey, PastValue
from curator_bench.values import Check, Entry, Requirement, Scalar
from curator_bench.verdict.cases import Question
from curator_bench.verdict.comparable import Origin, comparable_with
from curator_bench.verdict.gates import PREVIOUS, Seen, Wanted, bar_of, check_of, is_met, number, told, wanted
from curator_bench.verdict.judgement import Judgement
from curator_bench.verdict.judging import judge
from curator_bench.verdict.noise import BLOCK, BLOCKS
from curator_bench.verdict.tails import Floats

_LAST = BLOCK * (BLOCKS + 1)
_SHOWN = 40
_SHORTEST_COMMIT = 6
_FOUND = pytest.StashKey[int]()
"""How many regressions this process has found of those that no requirement asks for."""


@dataclass(frozen=True, slots=True)
class Judged:
    """A check for each gate, and texts for those that failed or are inconclusive."""

    checks: tuple[Check, ...] = ()
    texts: tuple[str, ...] = ()

    @property
    def state(self) -> GateState:
        """Inconclusive as long as any gate is: measuring again may decide it."""
        if any(check.is_inconclusive for check in self.checks):
            return GateState.INCONCLUSIVE
        return GateState.FAILED if self.has_failed else GateState.PASSED

    @property
    def has_failed(self) -> bool:
        return any(check.is_unmet for check in self.checks)


@dataclass(frozen=True, slots=True)
class _Asked:
    """One metric with the earlier runs it may be held against."""

    wanted: Wanted
    past: Sequence[PastValue]
    question: Question
    note: str


class Gates:
    """Of one item; asked again when it has been measured again, with the same history."""

    def __init__(
        self,
        config: pytest.Config,
        origin: tuple[EntryKey, str | None],
        requirements: Sequence[Requirement],
        metrics: Mapping[str, Scalar],
        machine: str = "",
    ) -> None:
        """`origin` is the entry and its definition; `metrics` are what its first run measured, on `machine` or here."""
        self._config = config
        self._key, definition = origin
        self._origin = Origin(self._key.name, definition, machine or provenance_of(config).machine_id)
        everything = config.stash[BENCHMARKS].settings.fail_on_regression
        # What is no number is told by the requirement itself.
        numbers = {name: value for name, value in metrics.items() if _is_finite(value)}
        self._wanted = wanted(requirements, numbers, everything=everything)
        self.warnings: list[str] = []
        self._history = self._read() if self._wanted else GateHistory()

    def _read(self) -> GateHistory:
        database = self._config.stash[BENCHMARKS].settings.database
        names = [one.metric for one in self._wanted]
        try:
            history = read_gate_history(database, self._key, names, self._origin.machine, last=_LAST)
        except BenchError as error:
            self.warnings.append(f"not compared with its history: {error}")
            return GateHistory()
        if reason := self._why_not_comparable(history):
            self.warnings.append(reason)
        return history

    def _why_not_comparable(self, history: GateHistory) -> str:
        """Why none of the runs there are may be compared with this one; empty where some may, or there are none."""
        kinds = [Origin(self._key.name, definition, machine) for machine, definition in history.kinds]
        found = comparable_with(self._origin, kinds, list(history.kinds.values()))
        return "" if found.indices else found.reason

    def judge(self, measured: Sequence[Mapping[str, Scalar]]) -> Judged:
        """Decides on all runs there are of the item, the first one first."""
        asked = [self._ask(one, measured) for one in self._wanted if number(measured[-1].get(one.metric)) is not None]
        decisions = judge([one.question for one in asked])
        found = [self._is_met(*pair) for pair in zip(asked, decisions, strict=True)]
        answers = list(zip(asked, decisions, found, strict=True))
        return Judged(
            checks=tuple(self._check(one, decision, met, measured[-1]) for one, decision, met in answers),
            texts=tuple(_told(one, decision) for one, decision, met in answers if not met),
        )

    def note_discoveries(self, judged: Judged) -> None:
        """Regressions that were believed; so much the easier is the next one believed."""
        declared = {one.metric for one in self._wanted if one.is_declared}
        found = sum(check.is_unmet and check.metric not in declared for check in judged.checks)
        self._config.stash[_FOUND] = self._config.stash.get(_FOUND, 0) + found

    def _ask(self, one: Wanted, measured: Sequence[Mapping[str, Scalar]]) -> _Asked:
        since = self._history.level_since.get(one.metric)
        past = [
            value
            for value in self._history.values.get(one.metric, ())
            if (value.definition_hash or None) == (self._origin.definition or None)
            and number(value.value) is not None
            and (since is None or value.start >= since)
        ]
        baseline = None if one.baseline == PREVIOUS else [value for value in past if _is_of(value, one.baseline)]
        values = [number(run.get(one.metric)) for run in measured]
        newest = np.array([value for value in values if value is not None], dtype=np.float64)
        own = None if baseline is None else _figures(baseline)
        note = f"there are no comparable runs of {one.baseline}" if baseline == [] else ""
        if note and past and (warning := f"{one.metric} is not held against anything: {note}") not in self.warnings:
            self.warnings.append(warning)
        return _Asked(one, past, Question(_figures(past), newest, one.rules, own), note)

    def _is_met(self, asked: _Asked, decision: Judgement) -> bool | None:
        if asked.wanted.is_declared:
            return is_met(decision)
        metrics = sum(not one.is_declared for one in self._wanted)
        found = self._config.stash.get(_FOUND, 0)
        return is_met(decision, bar=bar_of(metrics * _items(self._config), found))

    def _check(self, asked: _Asked, decision: Judgement, met: bool | None, metrics: Mapping[str, Scalar]) -> Check:
        note = "" if met is False else asked.note or _reason(decision)
        return check_of(asked.wanted, metrics[asked.wanted.metric], decision, met=met, note=note)


def gates_of(item: pytest.Item, entry: Entry, metrics: Mapping[str, Scalar]) -> Gates:
    """The gates of the entry an item runs; `metrics` are those of its first run."""
    key = EntryKey(entry.id, name_in_project(entry.file.file, item.config), entry.name)
    machine = item.stash.get(MACHINE, "")
    return Gates(item.config, (key, definition_hash(entry)), entry.requirements, metrics, machine)


def _items(config: pytest.Config) -> int:
    """How many tests there are in this pytest."""
    session = config.pluginmanager.get_plugin("session")
    return max(getattr(session, "testscollected", 1), 1)


def _reason(decision: Judgement) -> str:
    is_said = not decision.decides or decision.decides in decision.reason
    return decision.reason if is_said else f"{decision.reason}; {decision.decides}"


def _is_finite(value: Scalar) -> bool:
    figure = number(value)
    return figure is not None and math.isfinite(figure)


def _figures(values: Sequence[PastValue]) -> Floats:
    return np.array([number(value.value) for value in values], dtype=np.float64)


def _is_of(value: PastValue, baseline: str) -> bool:
    """Whether a run is of this branch, session or commit."""
    if baseline in (value.branch, value.session, value.session_uid):
        return True
    return len(baseline) >= _SHORTEST_COMMIT and (value.commit or "").startswith(baseline)


def _told(asked: _Asked, decision: Judgement) -> str:
    newest = asked.question.newest
    began = len(asked.past) if decision.began is None else decision.began
    course = [*asked.question.history[-_SHOWN:], *newest]
    return told(
        asked.wanted,
        decision,
        value=float(newest[-1]),
        runs=len(asked.past) + len(newest) - began,
        course=drawn([value for value in course if np.isfinite(value)]),
        seen=_seen(asked, decision),
    )


def _seen(asked: _Asked, decision: Judgement) -> Seen:
    if decision.began is None or decision.began >= len(asked.past):
        return Seen()
    first = asked.past[decision.began]
    return Seen(first.session, first.commit, f"{first.start:%Y-%m-%d %H:%M} UTC")
