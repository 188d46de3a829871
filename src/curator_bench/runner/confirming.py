"""The gates of an entry's run, and what is measured again before one of them fails it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from curator_bench.collection import BENCHMARKS
from curator_bench.matrix import definition_hash
from curator_bench.runner.entry_record import path_of
from curator_bench.runner.gating import Gates
from curator_bench.runner.outcomes import Outcome, of_requirements
from curator_bench.runner.reporting import note_run
from curator_bench.runner.run_keys import MACHINE
from curator_bench.runner.running import ARRIVED, run_again
from curator_bench.store.queries import EntryKey
from curator_bench.values import Entry, Verdict

CONFIRMATION = pytest.StashKey["Confirmation"]()
"""Of an item whose runs a fleet has measured, as often as was wanted."""


def with_gates(item: pytest.Item, entry: Entry, outcome: Outcome) -> Outcome:
    """The outcome with its gates; where only they fail, after as many further runs as `--bench-confirm` allows.

    Each further run is a run of its own, as after an `error`; the gates decide on all of them together.
    """
    if ARRIVED in item.stash:
        return confirmation_of(item, entry, outcome).judged(outcome)
    confirmation = Confirmation(item, entry, outcome)
    while confirmation.wants_another(outcome):
        outcome = of_requirements(entry, run_again(item, entry, outcome.result.attempt + 1))
    return confirmation.judged(outcome)


def confirmation_of(item: pytest.Item, entry: Entry, outcome: Outcome) -> Confirmation:
    """The one there is; else one that begins with this run."""
    if CONFIRMATION not in item.stash:
        item.stash[CONFIRMATION] = Confirmation(item, entry, outcome)
    return item.stash[CONFIRMATION]


class Confirmation:
    """The runs of one item so far, and what the gates make of all of them."""

    def __init__(self, item: pytest.Item, entry: Entry, first: Outcome) -> None:
        self._item, self._entry = item, entry
        key = EntryKey(entry.id, path_of(item, entry), entry.name)
        machine = item.stash.get(MACHINE, "")
        self._gates = Gates(
            item.config, (key, definition_hash(entry)), entry.requirements, first.result.metrics, machine
        )
        self._left = item.config.stash[BENCHMARKS].settings.confirm
        self._measured = [first.result.metrics]
        self._judged = self._gates.judge(self._measured)
        if not self._judged.has_failed:
            self._left = 0
        self._seen = first.result.attempt

    def wants_another(self, outcome: Outcome) -> bool:
        """Whether the entry is to be measured again; then this run of it is noted."""
        self._take(outcome)
        if not self._left or outcome.verdict is not Verdict.PASSED or not self._is_undecided():
            return False
        self._left -= 1
        note_run(self._item, self._entry, outcome.result, Verdict.FAILED, self._joined(outcome).checks)
        return True

    def judged(self, outcome: Outcome) -> Outcome:
        """What came of all of them, the last one being this; one that did not even pass is all there is to say."""
        if outcome.result.verdict is not Verdict.PASSED:
            return outcome
        self._take(outcome)
        self._gates.note_discoveries(self._judged)
        return self._joined(outcome)

    def _take(self, outcome: Outcome) -> None:
        """A run that passed, before its gates; one that was taken before may have been changed by a fixture."""
        result = outcome.result
        if result.verdict is not Verdict.PASSED or (
            result.attempt == self._seen and result.metrics == self._measured[-1]
        ):
            return
        earlier = self._measured[:-1] if result.attempt == self._seen else self._measured
        self._measured, self._seen = [*earlier, result.metrics], result.attempt
        self._judged = self._gates.judge(self._measured)

    def _is_undecided(self) -> bool:
        """One run that fails is always worth another; of several that fail together all is known."""
        return self._judged.is_open or (self._judged.has_failed and len(self._measured) == 1)

    def _joined(self, outcome: Outcome) -> Outcome:
        result = replace(outcome.result, warnings=(*outcome.result.warnings, *self._gates.warnings))
        return Outcome(result, (*outcome.checks, *self._judged.checks), self._judged.texts)
