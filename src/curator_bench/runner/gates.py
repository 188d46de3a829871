"""The gates of one entry: the metrics of its runs compared with its history.

The database is read once per item, before anything is measured again, also without --benchmark. If it cannot be read,
that is a warning, and no run fails.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any, NamedTuple

import numpy as np
import pytest

from curator_bench.causes import commands, wording
from curator_bench.causes.recorded import facts_of
from curator_bench.causes.what_changed import what_changed
from curator_bench.collection.benchmarks import BENCHMARKS
from curator_bench.errors import BenchError
from curator_bench.matrix import Definition, definition_of
from curator_bench.options.rootdir import name_in_project
from curator_bench.provenance.git import tags
from curator_bench.provenance.packages import commit_lines
from curator_bench.report.sparkline import drawn
from curator_bench.runner.backgrounds import facts_now
from curator_bench.runner.policy import GateState
from curator_bench.runner.run_keys import BACKGROUND, DEFINITION, MACHINE
from curator_bench.runner.session import provenance_of, session_of
from curator_bench.store.gate_history import Gated, GateHistory, read_gate_history
from curator_bench.store.opening import to_read_if_there
from curator_bench.store.queries import EntryKey, PastValue
from curator_bench.store.records import NO_BACKGROUND, Background
from curator_bench.store.series import identity_of
from curator_bench.values import Check, Entry, Requirement, Scalar
from curator_bench.verdict.cases import History, Question
from curator_bench.verdict.comparable import Origin, comparable_with
from curator_bench.verdict.direction import Better
from curator_bench.verdict.distributions import Floats
from curator_bench.verdict.disturbance import RECENT, is_machine_disturbed
from curator_bench.verdict.drifting import FEWEST_FOR_DRIFT, drifts
from curator_bench.verdict.failure_table import percent
from curator_bench.verdict.gates import (
    PREVIOUS,
    Seen,
    Wanted,
    WantedDrift,
    bar_of,
    check_of,
    drift_check,
    drift_sight_text,
    failure_text,
    number,
    sight,
    wanted,
    wanted_drifts,
)
from curator_bench.verdict.judgement import Judgement, Mark, Word
from curator_bench.verdict.judging import GATE_RUNS, judge
from curator_bench.verdict.marks import Release, marks_of

_LAST = 2 * GATE_RUNS
_LAST_OF_DRIFT = 1000
"""The number of earlier runs read for a gate on drift, which is slow."""
_BLIND, _BLIND_TO_DRIFT = "would miss a change of", "would miss a drift of"
_SHOWN = 40
_SHORTEST_COMMIT = 6
_FEW = 5
"""A series with fewer runs says which runs are left out."""
_QUIETER = "measure on a quieter machine (`curator-bench doctor` says what to mend)"
ONLY_DISTURBED = f"the machine did something else during the run: {_QUIETER}"
_FOUND = pytest.StashKey[int]()
"""The number of regressions this process found on metrics without a requirement."""


class Between(NamedTuple):
    """The last run before a regression of a metric and the first after it, which may be the run that is judged."""

    before: int
    """Id of its row."""
    after: int | None
    """Id of its row; None for the run that is judged."""
    metric: str
    sessions: tuple[str, str]
    """Names of their sessions; empty for the one that is judged."""
    better: Better | None


class Changes(NamedTuple):
    """Say in lines what changed around the regressions of a run, and which commands would tell the cause."""

    lines: tuple[str, ...] = ()
    commands: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Judged:
    """A check for each gate, with texts for those that failed or are inconclusive."""

    checks: tuple[Check, ...] = ()
    texts: tuple[str, ...] = ()
    regressions: frozenset[Between] = frozenset()
    """The runs around each regression that is certain."""
    is_open: bool = False
    """True if measuring again may decide an inconclusive gate."""

    @property
    def state(self) -> GateState:
        if self.is_open:
            return GateState.INCONCLUSIVE
        return GateState.FAILED if self.has_failed else GateState.PASSED

    @property
    def has_failed(self) -> bool:
        return any(check.is_unmet for check in self.checks)


@dataclass(frozen=True, slots=True)
class _Asked:
    """One gated metric with the earlier runs it is compared with."""

    wanted: Wanted
    past: Sequence[PastValue]
    question: Question
    note: str


class Gates:
    """The gates of one item. They may be asked again after another run, with the same history."""

    def __init__(
        self,
        config: pytest.Config,
        origin: tuple[EntryKey, Definition | None],
        requirements: Sequence[Requirement],
        machine: str = "",
        background: Callable[[], Background] = lambda: NO_BACKGROUND,
    ) -> None:
        """`origin` is the entry and its definition. It was measured on `machine`, or here if that is empty."""
        self._background = background
        self._config, self._requirements = config, requirements
        self._key, self._definition = origin
        series, identity = (
            (self._definition.series, identity_of(self._definition.content)) if self._definition else (None, {})
        )
        self._origin = Origin(self._key.name, series, machine or provenance_of(config).machine_id, identity)
        self._wanted: list[Wanted] = []
        self._wanted_drifts: list[WantedDrift] = []
        self._histories: dict[str, GateHistory] = {}
        """The history by metric, read before anything is measured again."""
        self.warnings: list[str] = []

    def _read(self, metrics: Mapping[str, Scalar]) -> None:
        """Read the missing histories of gated metrics. A fixture may have added a metric to the last run."""
        everything = self._config.stash[BENCHMARKS].settings.fail_on_regression
        # The requirement itself reports a value that is not a number.
        numbers = {name: value for name, value in metrics.items() if _is_finite(value)}
        found = wanted(self._requirements, numbers, everything=everything)
        new = [one for one in found if one.metric not in self._histories]
        new_drifts = [one for one in wanted_drifts(self._requirements, numbers) if one.metric not in self._histories]
        names = list(dict.fromkeys([*(one.metric for one in new), *(one.metric for one in new_drifts)]))
        if names:
            history = self._history(names, _LAST_OF_DRIFT if new_drifts else _LAST)
            self._wanted += new
            self._wanted_drifts += new_drifts
            self._histories |= dict.fromkeys(names, history)

    def _history(self, names: list[str], last: int) -> GateHistory:
        database = self._config.stash[BENCHMARKS].settings.database
        try:
            history = read_gate_history(database, self._gated, names, last=last)
        except BenchError as error:
            self.warnings.append(f"not compared with its history: {error}")
            return GateHistory()
        if reason := self._why_left_out(history):
            self.warnings.append(reason)
        return history

    @property
    def _gated(self) -> Gated:
        definition = self._definition.hash if self._definition else None
        place = provenance_of(self._config).commit_place
        return Gated(self._key, self._origin.machine, self._origin.series, definition, place)

    def _why_left_out(self, history: GateHistory) -> str:
        """Return why earlier runs are not compared with this one; empty if enough others are, or if there are none.

        A new series says which runs of this machine it left out until it has a history of its own.
        """
        kinds = [
            Origin(self._key.name, series, machine, history.identities.get(series or "", {}))
            for machine, series in history.kinds
        ]
        counts = list(history.kinds.values())
        found = comparable_with(self._origin, kinds, counts)
        if not found.indices:
            return found.reason
        here = [index for index, kind in enumerate(kinds) if kind.machine == self._origin.machine]
        left = comparable_with(self._origin, [kinds[index] for index in here], [counts[index] for index in here])
        alike = sum(counts[index] for index in found.indices)
        return f"left out of its history: {'; '.join(left.reasons)}" if alike < _FEW and left.reasons else ""

    def judge(self, measured: Sequence[Mapping[str, Scalar]], disturbed: Sequence[bool] = ()) -> Judged:
        """Judge all these runs of the item together, the first one first.

        `disturbed` tells which of the item's runs were disturbed; those are not among `measured` unless all were.
        """
        found = self._judge(measured)
        reason = self._why_undecidable(disturbed)
        if not reason or not found.checks:
            return found
        return Judged(tuple(_undecided(check, reason) for check in found.checks))

    def _why_undecidable(self, disturbed: Sequence[bool]) -> str:
        """Return why disturbances leave nothing to judge; empty if enough undisturbed runs are there."""
        if disturbed and all(disturbed):
            return ONLY_DISTURBED
        before = next((history.disturbed for history in self._histories.values()), ())
        recent = [one for one in (*before, *disturbed) if one is not None][-RECENT:]
        if not is_machine_disturbed(recent):
            return ""
        return f"{sum(recent)} of the last {len(recent)} runs were disturbed: {_QUIETER}"

    def _judge(self, measured: Sequence[Mapping[str, Scalar]]) -> Judged:
        self._read(measured[-1])
        asked = [self._ask(one, measured) for one in self._wanted if number(measured[-1].get(one.metric)) is not None]
        answers = self._answers(asked)
        checks = [_check(*answer, measured[-1]) for answer in answers]
        self._warn_of_blindness(answers, measured[-1])
        found = list(zip(answers, checks, strict=True))
        return Judged(
            checks=(*checks, *self._drift_checks(measured)),
            texts=tuple(_told(*answer) for answer, check in found if not check.met),
            regressions=frozenset(_between(*answer) for answer, check in found if check.is_unmet and answer[0].past),
            is_open=any(check.is_inconclusive and self._is_worth_it(*answer) for answer, check in found),
        )

    def changes(self, judged: Judged, params: Mapping[str, Any]) -> Changes:
        """Word what changed around the regressions of a run with these parameters."""
        if not judged.regressions:
            return Changes()
        database = self._config.stash[BENCHMARKS].settings.database
        now = facts_now(self._config, self._background(), params)
        try:
            with to_read_if_there(database) as opened:
                if opened is None:
                    return Changes()
                with opened.reading() as connection:
                    ids = {run for one in judged.regressions for run in (one.before, one.after) if run is not None}
                    facts = facts_of(connection, ids)
        except BenchError as error:
            self.warnings.append(f"what changed is not known: {error}")
            return Changes()
        log = functools.partial(commit_lines, self._config.rootpath)
        found = {
            one: what_changed(facts[one.before], now if one.after is None else facts[one.after])
            for one in sorted(judged.regressions, key=str)
            if one.before in facts and (one.after is None or one.after in facts)
        }
        lines = (line for changed in found.values() for line in wording.text(changed, log))
        told = (
            line for one, changed in found.items() for line in commands.command_lines(changed, self._asked_of(one), log)
        )
        return Changes(tuple(dict.fromkeys(lines)), tuple(dict.fromkeys(told)))

    def _asked_of(self, one: Between) -> commands.Question:
        settings, (before, after) = self._config.stash[BENCHMARKS].settings, one.sessions
        own = session_of(self._config).name if settings.benchmark else ""
        sessions = before, own if one.after is None else after
        return commands.Question(self._key.name, self._key.path, one.metric, sessions, one.better)

    def note_discoveries(self, judged: Judged) -> None:
        """Count confirmed regressions. The more there are, the easier the next one is confirmed."""
        declared = {one.metric for one in self._wanted if one.is_declared}
        found = sum(check.is_unmet and check.metric not in declared for check in judged.checks)
        self._config.stash[_FOUND] = self._config.stash.get(_FOUND, 0) + found

    def _past(self, metric: str) -> list[PastValue]:
        """Return the earlier values of this series, from the last accepted level on."""
        history = self._histories[metric]
        since = history.level_since.get(metric)
        return [
            value
            for value in history.values.get(metric, ())
            if number(value.value) is not None and (since is None or value.start >= since)
        ]

    def _ask(self, one: Wanted, measured: Sequence[Mapping[str, Scalar]]) -> _Asked:
        past = self._past(one.metric)
        baseline = None if one.baseline == PREVIOUS else [value for value in past if _is_of(value, one.baseline)]
        newest = _newest(measured, one.metric)
        own = None if baseline is None else _figures(baseline)
        note = f"there are no comparable runs of {one.baseline}" if baseline == [] else ""
        if note and past and (warning := f"{one.metric} cannot be compared with anything: {note}") not in self.warnings:
            self.warnings.append(warning)
        return _Asked(one, past, Question(_figures(past), newest, one.rules, own), note)

    def _answers(self, asked: Sequence[_Asked]) -> list[tuple[_Asked, Judgement]]:
        """Judge each metric; what chance may explain as one test of many is in doubt."""
        found = zip(asked, judge([one.question for one in asked]), strict=True)
        return [(one, judged if self._is_worth_it(one, judged) else judged.doubted()) for one, judged in found]

    def _is_worth_it(self, asked: _Asked, decision: Judgement) -> bool:
        """True if it may be more than chance: of many metrics without a requirement, some exceed their limit by chance.

        Only then is measuring again worth it.
        """
        return decision.p_value <= self._bar(asked.wanted)

    def _bar(self, one: Wanted) -> float:
        if one.is_declared:
            return 1.0
        metrics = sum(not one.is_declared for one in self._wanted)
        return bar_of(metrics * _items(self._config), self._config.stash.get(_FOUND, 0))

    def _warn_of_blindness(self, answers: Sequence[tuple[_Asked, Judgement]], metrics: Mapping[str, Scalar]) -> None:
        """Warn about declared gates that cannot detect a change of their limit."""
        for one, decision in answers:
            name = one.wanted.metric
            repeats = int(number(metrics.get(f"{name}_n")) or 1)
            text = sight(decision, one.wanted.limit, repeats=repeats) if one.wanted.is_declared else ""
            self.warnings = [known for known in self.warnings if not known.startswith(f"{name} {_BLIND}")]
            if text and decision.says != Word.REGRESSION:
                self.warnings.append(f"{name} {_BLIND} {percent(one.wanted.limit)}: {text}")

    def _drift_checks(self, measured: Sequence[Mapping[str, Scalar]]) -> Iterator[Check]:
        for one in self._wanted_drifts:
            value, newest = measured[-1].get(one.metric), _newest(measured, one.metric)
            past, fewest = self._past(one.metric), max(one.rules.min_history, FEWEST_FOR_DRIFT - 1)
            if len(newest) and len(past) < fewest:
                lacks = f"not enough history: {len(past)} of at least {fewest} runs"
                yield drift_check(one, value, None, lacks=lacks)
            elif len(newest):
                history, marks = self._drift_question(one, past, newest)
                (found,) = drifts([(history, marks)], least=one.limit)
                self._warn_of_drift(one, "" if found else drift_sight_text(history, one.limit))
                yield drift_check(one, value, found)

    def _warn_of_drift(self, one: WantedDrift, text: str) -> None:
        """Warn about a gate on drift that cannot detect a drift of its limit, if there is a text about it."""
        start = f"{one.metric} {_BLIND_TO_DRIFT}"
        self.warnings = [known for known in self.warnings if not known.startswith(start)]
        if text:
            self.warnings.append(f"{start} {percent(one.limit)}: {text}")

    def _drift_question(
        self, one: WantedDrift, past: Sequence[PastValue], newest: Floats
    ) -> tuple[History, list[Mark]]:
        now = datetime.now(UTC).timestamp()
        starts = np.array([*(value.start.timestamp() for value in past), *[now] * len(newest)])
        commits = [*(value.commit for value in past), *[None] * len(newest)]
        releases = [Release(tag.name, tag.commit, tag.time) for tag in tags(self._config.rootpath)]
        history = History(np.concatenate([_figures(past), newest]), one.rules)
        return history, marks_of(starts, commits, releases)


def gates_of(item: pytest.Item, entry: Entry) -> Gates:
    """Return the gates of the entry an item runs."""
    key = EntryKey(entry.id, name_in_project(entry.file.file, item.config), entry.name)
    machine = item.stash.get(MACHINE, "")
    definition = item.stash.get(DEFINITION, None) or definition_of(entry)
    background = item.stash.get(BACKGROUND, lambda: NO_BACKGROUND)
    return Gates(item.config, (key, definition), entry.requirements, machine, background)


def _undecided(check: Check, reason: str) -> Check:
    return replace(check, met=None, off_by_fraction=None, note=reason, says=str(Word.INCONCLUSIVE))


def _items(config: pytest.Config) -> int:
    """Return the number of tests in this pytest."""
    session = config.pluginmanager.get_plugin("session")
    return max(getattr(session, "testscollected", 1), 1)


def _reason(decision: Judgement) -> str:
    is_said = not decision.decides or decision.decides in decision.reason
    return decision.reason if is_said else f"{decision.reason}; {decision.decides}"


def _is_finite(value: Scalar) -> bool:
    figure = number(value)
    return figure is not None and math.isfinite(figure)


def _newest(measured: Sequence[Mapping[str, Scalar]], metric: str) -> Floats:
    values = [number(run.get(metric)) for run in measured]
    return np.array([value for value in values if value is not None], dtype=np.float64)


def _figures(values: Sequence[PastValue]) -> Floats:
    return np.array([number(value.value) for value in values], dtype=np.float64)


def _is_of(value: PastValue, baseline: str) -> bool:
    """True if a run is of this branch, session or commit."""
    if baseline in (*value.branches, value.session, value.session_uid):
        return True
    return len(baseline) >= _SHORTEST_COMMIT and (value.commit or "").startswith(baseline)


def _check(asked: _Asked, decision: Judgement, metrics: Mapping[str, Scalar]) -> Check:
    note = "" if decision.word is Word.REGRESSION else asked.note or _reason(decision)
    return check_of(asked.wanted, metrics[asked.wanted.metric], decision, note=note)


def _told(asked: _Asked, decision: Judgement) -> str:
    newest = asked.question.newest
    began = len(asked.past) if decision.began is None else decision.began
    trend = [*asked.question.history[-_SHOWN:], *newest]
    return failure_text(
        asked.wanted,
        decision,
        value=float(newest[-1]),
        runs=len(asked.past) + len(newest) - began,
        trend=drawn([value for value in trend if np.isfinite(value)]),
        seen=_seen(asked, decision),
    )


def _between(asked: _Asked, decision: Judgement) -> Between:
    began = len(asked.past) if decision.began is None else min(decision.began, len(asked.past))
    began = max(began, 1)
    before, after = asked.past[began - 1], asked.past[began] if began < len(asked.past) else None
    sessions = before.session, after.session if after else ""
    return Between(
        before.run_id, after.run_id if after else None, asked.wanted.metric, sessions, asked.wanted.rules.better
    )


def _seen(asked: _Asked, decision: Judgement) -> Seen:
    if decision.began is None or decision.began >= len(asked.past):
        return Seen()
    first = asked.past[decision.began]
    return Seen(first.session, first.commit, f"{first.start:%Y-%m-%d %H:%M} UTC")
