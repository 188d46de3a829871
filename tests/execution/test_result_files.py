"""params.json and metrics.json: every state a script can leave them in has an outcome and a message."""

from __future__ import annotations

import json
import math
import os
import pickle
import socket
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from curator_bench.execution.result_files import ResultFiles, read_result_files
from curator_bench.measure.processes import busyness

SCALARS = st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=20))
JSON_VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
    max_leaves=20,
)


def read(directory: Path) -> ResultFiles:
    return read_result_files(directory, python=sys.executable, env=dict(os.environ))


def read_metrics(directory: Path, content: str | bytes) -> ResultFiles:
    """What is read where a script wrote good params and this as metrics.json."""
    (directory / "params.json").write_text("{}")
    encoded = content.encode() if isinstance(content, str) else content
    (directory / "metrics.json").write_bytes(encoded)
    return read(directory)


def test_good_files_are_read_without_a_word(tmp_path: Path) -> None:
    (tmp_path / "params.json").write_text('{"executor": "ray_data", "nested": {"workers": [1, 2]}}')
    (tmp_path / "metrics.json").write_text(
        '{"is_success": true, "docs": 12, "rate": 1.5, "mode": "fast", "skipped": null}'
    )
    found = read(tmp_path)
    assert found == ResultFiles(
        params={"executor": "ray_data", "nested": {"workers": [1, 2]}},
        metrics={"is_success": True, "docs": 12, "rate": 1.5, "mode": "fast", "skipped": None},
    )
    assert type(found.metrics["docs"]) is int


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b"", "metrics.json is empty"),
        (b" \n ", "metrics.json is empty"),
        (b'{"a": 1, "b": [1, 2', "metrics.json breaks off in the middle: "),
        (b'{"a": "te', "metrics.json breaks off in the middle: Unterminated string"),
        (b'{"a": 1} {"a": 2}', "metrics.json is not valid JSON: Extra data (line 1, column 10)"),
        (b"{'a': 1}", "metrics.json is not valid JSON: "),
        (b'{"a": "\xff\xfe"}', "metrics.json is not UTF-8 (byte 7)"),
        ('{"a": 1}'.encode("utf-16"), "metrics.json is not UTF-8 (byte 0)"),
        (b"[1, 2]", "metrics.json holds a list, not an object ({…})"),
        (b"3", "metrics.json holds a number, not an object ({…})"),
        (b"null", "metrics.json holds null, not an object ({…})"),
        (b'"text"', "metrics.json holds text, not an object ({…})"),
        (b"false", "metrics.json holds true or false, not an object ({…})"),
        (b"[" * 1_000_000, "metrics.json is nested too deeply"),
        (b'{"a":' * 200_000, "metrics.json is nested too deeply"),
    ],
)
def test_unusable_metrics_are_a_problem_that_says_why(tmp_path: Path, content: bytes, problem: str) -> None:
    found = read_metrics(tmp_path, content)
    assert found.problem.startswith(problem)
    assert found.metrics == {}


def test_metrics_that_were_never_written_are_a_problem(tmp_path: Path) -> None:
    found = read(tmp_path)
    assert (found.problem, found.warnings) == (f"metrics.json was not written to {tmp_path}", ())


def test_a_results_directory_that_is_missing_or_a_file_is_a_problem(tmp_path: Path) -> None:
    assert "was not written" in read(tmp_path / "nowhere").problem
    (tmp_path / "file").write_text("")
    assert "cannot be opened: Not a directory" in read(tmp_path / "file").problem


def test_missing_or_broken_params_cost_a_warning_only(tmp_path: Path) -> None:
    (tmp_path / "metrics.json").write_text('{"a": 1}')
    found = read(tmp_path)
    assert (found.warnings, found.problem, found.metrics) == (("params.json was not written",), "", {"a": 1})
    for content in ("", "{", "[]", "[" * 100_000, '{"a":' * 60 + "1" + "}" * 60):
        (tmp_path / "params.json").write_text(content)
        found = read(tmp_path)
        assert (found.params, found.problem, len(found.warnings)) == ({}, "", 1)
        assert found.warnings[0].startswith("params.json ")


def bind_a_socket(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(path.name)  # relative, as the address of a socket is short


SPECIAL_FILES: dict[str, Callable[[Path], object]] = {
    "folder": lambda path: path.mkdir(),
    "pipe": lambda path: os.mkfifo(path),
    "socket": bind_a_socket,
    "device": lambda path: path.symlink_to("/dev/zero"),
    "loop": lambda path: path.symlink_to(path),
    "dangling": lambda path: path.symlink_to(path.with_name("gone")),
}


@pytest.mark.parametrize("kind", SPECIAL_FILES)
def test_what_is_no_file_is_refused_and_never_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("params.json", "metrics.json", "tasks.pkl"):
        SPECIAL_FILES[kind](tmp_path / name)
    found = read(tmp_path)
    assert found.problem.startswith("metrics.json ")
    assert found.warnings[0].startswith("params.json ")
    assert len(found.warnings) == 2


def test_nan_and_infinity_are_kept_as_floats(tmp_path: Path) -> None:
    found = read_metrics(tmp_path, '{"a": NaN, "b": Infinity, "c": -Infinity, "d": 1e999}')
    assert math.isnan(found.metrics["a"])  # type: ignore[arg-type]
    assert [found.metrics[name] for name in "bcd"] == [math.inf, -math.inf, math.inf]
    assert (found.problem, found.warnings) == ("", ())


def test_samples_are_numbers_of_a_metric_and_at_most_100(tmp_path: Path) -> None:
    written = {"time_s": list(range(1000)), "few": [1.5, 2], "texts": ["a"], "flags": [True], "one": 3, "other": [1]}
    (tmp_path / "samples.json").write_text(json.dumps(written))
    found = read_metrics(tmp_path, json.dumps({"time_s": 500, "few": 1, "texts": 1, "flags": 1, "one": 1}))
    assert found.samples == {"time_s": tuple(range(0, 1000, 10)), "few": (1.5, 2)}
    assert (found.problem, found.warnings) == ("", read_metrics(tmp_path, "{}").warnings)
    (tmp_path / "samples.json").write_text("broken")
    assert read_metrics(tmp_path, '{"time_s": 1}').samples == {}


def test_nested_values_get_dotted_names(tmp_path: Path) -> None:
    found = read_metrics(tmp_path, '{"a": {"b": {"c": 1}, "d": [2, {"e": 3}, [4]]}, "f": {}, "g": []}')
    assert found.metrics == {"a.b.c": 1, "a.d.0": 2, "a.d.1.e": 3, "a.d.2.0": 4}
    assert found.warnings == ()


def test_of_two_metrics_with_one_dotted_name_the_outer_counts(tmp_path: Path) -> None:
    found = read_metrics(tmp_path, '{"a": {"b": 1}, "a.b": 2}')
    assert found.metrics == {"a.b": 2}
    assert found.warnings == ("metrics.json has repeated names, of which the outermost counts: a.b",)


def test_of_repeated_names_the_last_counts_and_a_warning_names_them(tmp_path: Path) -> None:
    found = read_metrics(tmp_path, '{"a": 1, "b": 2, "a": 3, "n": {"c": 1, "c": 2}}')
    assert found.metrics == {"a": 3, "b": 2, "n.c": 2}
    assert found.warnings == ("metrics.json has repeated names, of which the last counts: c, a",)


def test_large_whole_numbers_stay_exact_and_absurd_ones_become_infinite(tmp_path: Path) -> None:
    found = read_metrics(tmp_path, f'{{"exact": {2**70 + 1}, "absurd": {"9" * 5000}, "below": -{"9" * 400}}}')
    assert found.metrics == {"exact": 2**70 + 1, "absurd": math.inf, "below": -math.inf}
    assert found.warnings == ("metrics.json has 2 whole numbers beyond the range of a float, read as infinite",)


def test_long_lists_names_and_texts_are_limited_and_the_limit_is_said(tmp_path: Path) -> None:
    content = {"times": list(range(101)), "n" * 251: 1, "log": "x" * 5000, "kept": 1}
    found = read_metrics(tmp_path, json.dumps(content))
    assert len([name for name in found.metrics if name.startswith("times.")]) == 100
    assert found.metrics["log"] == "x" * 4096
    assert found.metrics["kept"] == 1
    assert [warning.partition(":")[0] for warning in found.warnings] == [
        "metrics.json has lists cut after 100 items",
        "metrics.json has names longer than 250 characters, which are left out",
        "metrics.json has texts cut after 4,096 characters",
    ]


def test_too_many_metrics_never_cost_an_outer_one(tmp_path: Path) -> None:
    nested = {str(number): number for number in range(20_000)}
    content = {"shallow": {"rate": 1}, "deep": {"deeper": nested}, "throughput": 200}
    found = read_metrics(tmp_path, json.dumps(content))
    assert len(found.metrics) == 10_000
    assert (found.metrics["throughput"], found.metrics["shallow.rate"]) == (200, 1)
    assert found.warnings == ("metrics.json holds more than 10,000 metrics, of which the outermost 10,000 are kept",)


def test_a_file_of_50_mb_is_read(tmp_path: Path) -> None:
    times = ", ".join(["0.1234567890123456"] * 2_800_000)
    started = time.monotonic()
    found = read_metrics(tmp_path, f'{{"times": [{times}], "throughput": 200}}')
    assert (tmp_path / "metrics.json").stat().st_size > 50_000_000
    assert (found.problem, found.metrics["throughput"], len(found.metrics)) == ("", 200, 101)
    assert time.monotonic() - started < 30 * busyness()


def test_a_file_of_many_tiny_values_is_refused_before_it_fills_the_memory(tmp_path: Path) -> None:
    found = read_metrics(tmp_path, b"[" + b"{}," * 10_000_000 + b"{}]")
    assert found.problem == "metrics.json holds more than 5,000,000 values"


def test_a_file_beyond_the_limit_is_not_read(tmp_path: Path) -> None:
    with (tmp_path / "metrics.json").open("wb") as file:
        file.truncate(2**40)  # a terabyte of nothing
    assert read(tmp_path).problem == "metrics.json is too large: 1,048,576.0 MiB, at most 64.0 MiB are read"


def test_text_that_no_database_takes_is_replaced(tmp_path: Path) -> None:
    (tmp_path / "params.json").write_text(r'{"p\ud800": ["a\u0000b", "\ud83d\ude00"]}')
    (tmp_path / "metrics.json").write_text(r'{"m\udc00": "x\u0000"}')
    found = read(tmp_path)
    assert found.params == {"p\ufffd": ["a\ufffdb", "\N{GRINNING FACE}"]}
    assert found.metrics == {"m\ufffd": "x\ufffd"}


def test_a_byte_order_mark_is_ignored(tmp_path: Path) -> None:
    assert read_metrics(tmp_path, '{"a": 1}'.encode("utf-8-sig")).metrics == {"a": 1}


def test_task_metrics_join_the_others_even_where_these_are_missing(tmp_path: Path) -> None:
    tasks = [{"_stage_perf": [{"stage_name": "read", "process_time": 2.0}]}]
    (tmp_path / "tasks.pkl").write_bytes(pickle.dumps(tasks))
    found = read(tmp_path)
    assert "metrics.json was not written" in found.problem
    assert found.metrics["task_read_process_time_sum"] == 2.0
    (tmp_path / "metrics.json").write_text('{"a": 1, "task_read_process_time_sum": 7}')
    assert read(tmp_path).metrics == {
        "a": 1,
        "task_read_process_time_sum": 2.0,
        "task_read_process_time_mean": 2.0,
        "task_read_process_time_std": 0.0,
    }


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(content=st.binary(max_size=200))
def test_no_bytes_at_all_make_it_raise(tmp_path: Path, content: bytes) -> None:
    found = read_metrics(tmp_path, content)
    assert bool(found.problem) or isinstance(found.metrics, dict)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(content=st.dictionaries(st.text(max_size=5), JSON_VALUES, max_size=5))
def test_whatever_json_says_metrics_are_flat_and_can_be_written(tmp_path: Path, content: dict[str, Any]) -> None:
    found = read_metrics(tmp_path, json.dumps(content))
    assert found.problem == ""
    assert all(value is None or isinstance(value, str | int | float) for value in found.metrics.values())
    json.dumps(dict(found.metrics), ensure_ascii=False).encode()
