"""Tests measured by another plugin: those with the fixture `benchmark` of pytest-benchmark or pytest-codspeed.

The plugins are reached through what they registered with pytest. None of their modules is imported.
"""

from __future__ import annotations

import numbers
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from typing import Any, Protocol

import pytest

from curator_bench.importing.pytest_benchmark import ROUND, figures_of
from curator_bench.repeats import thinned
from curator_bench.values import Scalar

_NS = 1e-9


@dataclass(frozen=True, slots=True)
class Rounds:
    """Measurements of one test."""

    metrics: Mapping[str, Scalar]
    """Statistics of all rounds, named as those of an imported file."""
    params: Mapping[str, Any]
    samples: Mapping[str, tuple[float, ...]] = field(default_factory=dict)
    """At most 100 of the rounds. Empty if the plugin does not keep its rounds."""


class Instrument(Protocol):
    """Another plugin that measures tests."""

    def measures(self, item: pytest.Item) -> bool:
        """Return whether the plugin measures this item. No if it is switched off."""

    def switched_on(self, item: pytest.Item) -> AbstractContextManager[None]:
        """Let the plugin measure the item during this context."""

    def rounds(self, item: pytest.Item) -> Rounds | None:
        """Return the measurements of an item that was called; None if it measured nothing."""


def instruments_of(config: pytest.Config) -> Sequence[Instrument]:
    """Return the plugins in use that measure tests."""
    if _INSTRUMENTS not in config.stash:
        config.stash[_INSTRUMENTS] = tuple(_instruments(config))
    return config.stash[_INSTRUMENTS]


_INSTRUMENTS = pytest.StashKey["Sequence[Instrument]"]()


def _instruments(config: pytest.Config) -> Iterator[Instrument]:
    benchmark = config.pluginmanager.get_plugin("pytest-benchmark")
    codspeed = config.pluginmanager.get_plugin("codspeed_plugin")
    if benchmark is not None:
        yield PytestBenchmark(benchmark)
    if codspeed is not None:
        yield PytestCodspeed(codspeed, owns_benchmark=benchmark is None)


def is_switched_off(item: pytest.Item) -> bool:
    """Return whether pytest-benchmark, which the item needs, runs it without measuring."""
    session = item.config.pluginmanager.get_plugin("pytest-benchmark")
    return session is not None and session.disabled and not session.skip and "benchmark" in _fixtures_of(item)


def _fixtures_of(item: pytest.Item) -> Sequence[str]:
    return item.fixturenames if isinstance(item, pytest.Function) else ()


class PytestBenchmark:
    """pytest-benchmark, by its session."""

    def __init__(self, session: Any) -> None:
        self._session = session

    def measures(self, item: pytest.Item) -> bool:
        return "benchmark" in _fixtures_of(item) and not self._session.disabled and not self._session.skip

    def switched_on(self, item: pytest.Item) -> AbstractContextManager[None]:
        return nullcontext()

    def rounds(self, item: pytest.Item) -> Rounds | None:
        fixture = getattr(item, "funcargs", {}).get("benchmark")
        measured = getattr(fixture, "stats", None)
        if not measured or measured.has_error:
            return None
        return _rounds(measured.as_dict(include_data=True))


class PytestCodspeed:
    """pytest-codspeed, which measures only with its own option, or while it is switched on."""

    def __init__(self, plugin: Any, *, owns_benchmark: bool) -> None:
        """`owns_benchmark`: the fixture and the mark `benchmark` are those of this plugin."""
        self._plugin = plugin
        self._fixtures = {"codspeed_benchmark", *(["benchmark"] if owns_benchmark else [])}
        self._seen = 0
        """Number of benchmarks that have been looked at."""

    def measures(self, item: pytest.Item) -> bool:
        marked = any(item.get_closest_marker(name) is not None for name in self._fixtures)
        return self._has_clock and (marked or not self._fixtures.isdisjoint(_fixtures_of(item)))

    @contextmanager
    def switched_on(self, item: pytest.Item) -> Iterator[None]:
        was_on = self._plugin.is_codspeed_enabled
        self._plugin.is_codspeed_enabled = was_on or self.measures(item)
        try:
            yield
        finally:
            self._plugin.is_codspeed_enabled = was_on

    def rounds(self, item: pytest.Item) -> Rounds | None:
        found = self._plugin.instrument.benchmarks[self._seen :] if self._has_clock else ()
        self._seen += len(found)
        if not found:
            return None
        return _rounds({"stats": _statistics(found[-1].stats), "extra_info": self._extra_info(item)})

    def _extra_info(self, item: pytest.Item) -> Mapping[str, Any]:
        values: Mapping[str, Any] = getattr(item, "funcargs", {})
        fixtures = [values[name] for name in self._fixtures if name in values]
        return fixtures[0].extra_info if fixtures else {}

    @property
    def _has_clock(self) -> bool:
        """True in its mode `walltime`. Other modes count instructions in a service of its makers."""
        return getattr(self._plugin.instrument, "instrument", "") == "walltime"


def _statistics(found: Any) -> dict[str, Any]:
    """Return the statistics as pytest-benchmark names them."""
    names = {"min": "min_ns", "max": "max_ns", "mean": "mean_ns", "stddev": "stdev_ns", "median": "median_ns"}
    seconds = {name: getattr(found, theirs) * _NS for name, theirs in (names | {"q1": "q1_ns", "q3": "q3_ns"}).items()}
    seconds |= {"iqr": seconds["q3"] - seconds["q1"], "total": found.total_time}
    rate = {"ops": 1 / seconds["mean"]} if seconds["mean"] else {}
    return {**seconds, **rate, "rounds": found.rounds, "iterations": found.iter_per_round}


def _rounds(benchmark: Mapping[str, Any]) -> Rounds:
    extra = {str(name): _plain(value) for name, value in benchmark["extra_info"].items()}
    figures = figures_of({**benchmark, "params": None, "extra_info": extra})
    data = thinned(benchmark["stats"].get("data", ()))
    return Rounds(figures.metrics, figures.params, {ROUND: data} if data else {})


def _plain(value: Any) -> Any:
    """Return a number of numpy and the like as one of Python's own."""
    if isinstance(value, bool | str) or value is None:
        return value
    if isinstance(value, numbers.Integral):
        return int(value)
    return float(value) if isinstance(value, numbers.Real) else repr(value)
