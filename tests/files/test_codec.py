"""What is written as JSON is strict, and is read as it was; what is of another type is not believed."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from curator_bench.files.codec import from_document, json_line, json_text, strict, to_document
from curator_bench.store.records import InvocationRecord
from curator_bench.values import Check, Repeat, Run, RunRecord, Session, Subject, Verdict

NUMBERS = st.floats(allow_nan=False) | st.integers() | st.booleans() | st.none()
TEXTS = st.text().filter(lambda text: text not in ("NaN", "Infinity", "-Infinity"))
METRICS = st.dictionaries(st.text(), NUMBERS | TEXTS, max_size=5)
RECORDS = st.builds(
    RunRecord,
    name=st.text(),
    verdict=st.sampled_from(Verdict),
    duration_s=st.floats(0, 1e9),
    metrics=METRICS,
    axes=st.dictionaries(st.text(), st.text(), max_size=3),
    command=st.lists(st.text(), max_size=3).map(tuple),
    repeats=st.builds(Repeat, st.integers(), st.none() | st.integers(), st.floats(0, 9), METRICS).map(
        lambda one: (one,)
    ),
    is_last=st.booleans(),
    phases=st.dictionaries(st.text(), st.text(), max_size=2),
)


def refuse(constant: str) -> None:
    raise AssertionError(f"{constant} is no JSON")


@given(RECORDS, RECORDS)
def test_a_record_is_read_as_it_was_written(run: RunRecord, before: RunRecord) -> None:
    whole = replace(run, earlier=(before,))
    written = json_line(to_document(whole))
    assert from_document(RunRecord, json.loads(written, parse_constant=refuse)) == whole


def test_numbers_that_json_does_not_have_come_back() -> None:
    gate = Check("rate", "max_regression", 0.1, math.nan, met=None)
    run = RunRecord(name="a", verdict=Verdict.PASSED, metrics={"worst": -math.inf}, requirements=(gate,))
    back = from_document(RunRecord, json.loads(json_text(run), parse_constant=refuse))
    assert back.metrics == {"worst": -math.inf}
    assert isinstance(back.requirements[0].actual, float)
    assert math.isnan(back.requirements[0].actual)


def test_values_of_libraries_and_times_are_written_as_builtin_types() -> None:
    moment = datetime(2026, 1, 23, tzinfo=UTC)
    found = strict({"one": np.float64(1.5), "two": np.int64(2), "when": moment, 3: (Verdict.PASSED,), "odd": object})
    assert found == {"one": 1.5, "two": 2, "when": moment.isoformat(), "3": ["passed"], "odd": "<class 'object'>"}
    assert {type(value) for value in found.values()} == {float, int, str, list}


def test_times_come_back_in_utc_and_what_may_be_missing_may_be() -> None:
    found = from_document(InvocationRecord, {"uid": "u", "start": "2026-01-23T14:30:00"})
    assert found == InvocationRecord("u", datetime(2026, 1, 23, 14, 30, tzinfo=UTC))


def test_what_says_nothing_is_left_out_and_what_is_not_known_is_passed_over() -> None:
    document = to_document(RunRecord(name="a", verdict=Verdict.PASSED))
    assert document.keys().isdisjoint({"earlier", "is_last", "sink_data", "phases", "columns", "machine_id"})
    assert from_document(Run, {**document, "of_a_later_version": 1}) == Run(name="a")
    session = Session("s", "/r/s", subjects=(Subject("ray", "2"),))
    assert from_document(Session, to_document(session)) == session


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"name": 1}, "name: found '1', expected a text"),
        ({"verdict": "fine"}, "verdict: 'fine' is not a valid Verdict"),
        ({"duration_s": "long"}, "duration_s: found 'long', expected a number"),
        ({"exit_code": True}, "exit_code: found 'True', expected a whole number"),
        ({"metrics": [1]}, "metrics: found '[1]', expected an object"),
        (
            {"metrics": {"a": [1]}},
            "metrics: found '[1]', expected a text or a whole number or a number or true or false",
        ),
        ({"repeats": [{"index": 1}]}, "repeats.exec_time_s: missing"),
        ({"log_tail": "text"}, "log_tail: found 'text', expected a list"),
    ],
)
def test_what_is_of_another_type_is_named(wrong: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError) as problem:  # noqa: PT011  the text is what is looked at
        from_document(RunRecord, {"name": "a", "verdict": "passed", **wrong})
    assert str(problem.value) == said


def test_all_that_is_wrong_is_said_at_once() -> None:
    with pytest.raises(ValueError, match=r"^name: missing, verdict: missing, attempt: found 'two', expected a whole"):
        from_document(RunRecord, {"attempt": "two"})
