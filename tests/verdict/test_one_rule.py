"""The same numbers get their word by one rule from everything that compares, and a reader can check it in the line."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
import pytest

from curator_bench.values import Check
from curator_bench.verdict.cases import History, Question, Rules
from curator_bench.verdict.direction import Better
from curator_bench.verdict.distributions import Floats
from curator_bench.verdict.failure_table import failure_table
from curator_bench.verdict.gates import Wanted, check_of
from curator_bench.verdict.judging import Pair, compare, judge
from curator_bench.verdict.sequential import SequentialPlan, difference_of
from curator_bench.verdict.trends import trends
from curator_bench.verdict.turns import Turns, standings
from curator_bench.words import check_line

SIZES = (0.5, 0.88, 0.95, 0.97, 0.98, 1.0, 1.02, 1.031, 1.05, 1.12, 1.25, 2.0)


@dataclass(frozen=True, slots=True)
class Numbers:
    """A history, the newest runs, and the rules to judge them by."""

    history: Floats
    newest: Floats
    rules: Rules


@dataclass(frozen=True, slots=True)
class Line:
    """What is printed of a metric."""

    place: str
    word: str
    change: float
    interval: tuple[float, float]


def seeds(block: int, count: int) -> range:
    """Some of the cases of a test: workers share them, and none is a test of its own, which would take longer."""
    return range(block * count, (block + 1) * count)


def numbers(seed: int) -> Numbers:
    chance = np.random.default_rng(seed)
    noise, before, runs = chance.choice([0.005, 0.02, 0.08]), int(chance.integers(6, 60)), int(chance.integers(1, 6))
    values = np.exp(noise * chance.standard_normal(before + runs))
    values[before:] *= chance.choice(SIZES)
    rules = Rules(list(Better)[int(chance.integers(2))], float(chance.choice([0.01, 0.03, 0.1])))
    return Numbers(values[:before], values[before:], rules)


def lines(asked: Numbers) -> Iterator[Line]:
    """Ask everything that compares; the dashboard, reports and sinks print what these say."""
    history, newest, rules = asked.history, asked.newest, asked.rules
    runs = max(len(newest), 3)
    ends = np.resize(newest, runs) * np.linspace(0.999, 1.001, runs)
    (gate,) = judge([Question(history, newest, rules)])
    (baseline,) = judge([Question(history, newest, rules, history[-5:])])
    (regressions,) = trends([History(np.concatenate([history, newest]), rules)])
    (compared,) = compare([Pair(history[-5:], newest, history, rules)])
    (ab,) = standings([Turns(history[-runs:], ends, rules)])
    found = {"gate": gate, "baseline": baseline, "regressions": regressions.newest, "compare": compared}
    found["ab"] = ab.judgement
    for place, one in found.items():
        assert one.change is not None
        assert one.interval is not None
        yield Line(place, one.says, one.change, one.interval)
    for step in regressions.steps:
        yield Line("step", str(step.word), step.change, step.interval)
    assert rules.better is not None
    word, change = difference_of(history, ends, SequentialPlan(rules.better, rules.min_effect, 5))
    yield Line("bisect", str(word), change.change, change.interval)


@pytest.mark.parametrize("block", range(8))
def test_a_word_follows_from_the_change_and_the_limit_wherever_it_stands(block: int) -> None:
    for seed in seeds(block, 50):
        asked = numbers(seed)
        for line in lines(asked):
            follows(line, asked.rules, f"seed {seed}: {line}")


def follows(line: Line, rules: Rules, case: str) -> None:
    (low, high), limit, sign = line.interval, rules.min_effect, 1 if rules.better is Better.LESS else -1
    assert low <= line.change <= high, case
    is_beyond = abs(line.change) >= limit
    if line.place == "ab" and not is_beyond:
        assert (line.word == "no change") == (-limit < low and high < limit), case
    else:
        assert is_beyond == (line.word != "no change"), case
    if line.word == "no change":
        assert low < limit, case
        assert high > -limit, case
    if line.word in ("regression", "improvement"):
        assert line.word == ("regression" if sign * line.change > 0 else "improvement"), case
        assert low > 0 or high < 0, case


@pytest.mark.parametrize("block", range(2))
def test_one_newest_run_has_the_same_word_in_its_gate_in_regressions_and_on_the_dashboard(block: int) -> None:
    for seed in seeds(block, 100):
        asked = numbers(seed)
        (gate,) = judge([Question(asked.history, asked.newest[:1], asked.rules)])
        (trend,) = trends([History(np.append(asked.history, asked.newest[0]), asked.rules)])
        newest = trend.newest
        assert (gate.word, gate.change, gate.interval) == (newest.word, newest.change, newest.interval), f"seed {seed}"


def gated(asked: Numbers) -> tuple[Check, float]:
    """The check of a gate, and how much worse the metric is."""
    (decision,) = judge([Question(asked.history, asked.newest, asked.rules)])
    wanted = Wanted("speed", asked.rules, asked.rules.min_effect)
    assert decision.change is not None
    sign = 1 if asked.rules.better is Better.LESS else -1
    return check_of(wanted, float(asked.newest[-1]), decision, note=decision.reason), sign * decision.change


@pytest.mark.parametrize("block", range(2))
def test_a_gate_is_met_unless_its_metric_is_or_may_be_worse_than_its_limit(block: int) -> None:
    """Its table, its JUnit line and the message of a sink show the same word."""
    for seed in seeds(block, 100):
        asked, case = numbers(seed), f"seed {seed}"
        check, worse = gated(asked)
        if worse < asked.rules.min_effect:
            assert check.met, case
            assert check.says in ("no change", "improvement", "inconclusive"), case
        else:
            assert (check.met, check.says) in ((False, "regression"), (None, "inconclusive")), case
        assert f": {check.says} (" in check_line(check), case
        assert check.says in failure_table([check]).splitlines()[1], case


def test_one_run_that_is_far_off_in_a_noisy_history_is_inconclusive_wherever_it_is_compared() -> None:
    """Twenty runs of 8 % noise, and one that is beyond the limit in either direction."""
    for size in (1.25, 0.88):
        asked = Numbers(
            np.exp(0.08 * np.random.default_rng(6).standard_normal(20)), np.array([size]), Rules(Better.LESS)
        )
        words = {line.word for line in lines(asked) if line.place in ("gate", "baseline", "regressions", "compare")}
        assert words == {"inconclusive"}


def test_half_as_fast_is_within_a_limit_of_sixty_percent() -> None:
    """A limit is a share of the value before, as it is printed: of a speed, too."""
    rules = Rules(Better.MORE, 0.6)
    history = 100 + np.random.default_rng(2).standard_normal(30)
    assert judge([Question(history, np.array([50.0, 50.0]), rules)])[0].says == "no change"
    assert judge([Question(history, np.array([39.0, 39.0]), rules)])[0].says == "regression"


def test_what_undoes_a_regression_of_the_limit_ends_it_though_it_is_smaller() -> None:
    """3.2 % up is undone by 2.95 % down: that is no change by itself, but another level."""
    steps = trends([History(np.repeat([1.0, 1.032, 1.0016], 40) * np.tile([0.999, 1.001], 60), Rules(Better.LESS))])
    assert [str(step.word) for step in steps[0].steps] == ["regression", "no change"]


def test_many_metrics_make_one_doubtful_wherever_it_is_listed() -> None:
    """A step that is not believed among a thousand histories is not a regression of the newest runs either."""
    chance = np.random.default_rng(11)
    clean = [History(np.exp(0.02 * chance.standard_normal(40)), Rules(Better.LESS)) for _ in range(1000)]
    alone = replace(clean[0], values=np.append(clean[0].values, [1.067, 1.057]))
    assert trends([alone])[0].newest.says == "regression"
    among = trends([alone, *clean[1:]])[0]
    assert [str(step.word) for step in among.steps] == []
    assert among.newest.says == "inconclusive"
    assert among.newest.began is None
