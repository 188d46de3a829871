"""A matrix file is read as PyYAML reads it, with a place for each value and a few documented differences."""

from __future__ import annotations

import json
import math
import os
import re
from collections.abc import Mapping
from datetime import date, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml
from hypothesis import example, given, settings
from hypothesis import strategies as st

from curator_bench.errors import Mistake
from curator_bench.matrix.reading import read
from curator_bench.matrix.scalars import resolve_plain
from curator_bench.matrix.tree import Block, Filled, Undefined, leaves
from curator_bench.matrix.validation import plain
from curator_bench.matrix.variables import Variables
from curator_bench.values import Place

if TYPE_CHECKING:
    from matrix.conftest import Folder

FULL = os.environ.get("CURATOR_BENCH_PROOF") == "full"
EXAMPLES = settings(max_examples=2000 if FULL else 100, deadline=None, derandomize=True, database=None)

# `${` is filled in and NUL is refused; what YAML cannot hold (surrogates) PyYAML does not write either.
texts = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=20).filter(
    lambda text: "${" not in text
)
scalars = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | texts
values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(texts, inner, max_size=4),
    max_leaves=20,
)
documents = st.dictionaries(texts, values, max_size=5)


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("reading") / "matrix.yaml"


def read_text(file: Path, text: str, variables: Mapping[str, str] | None = None) -> list[Block]:
    """The documents of a text that has no mistakes."""
    file.write_text(text, encoding="utf-8", newline="")
    mistakes: list[Mistake] = []
    found = read(file, Variables(variables or {}), mistakes, shown="matrix.yaml")
    assert mistakes == []
    return found


def read_one(file: Path, text: str, variables: Mapping[str, str] | None = None) -> dict[str, Any]:
    (document,) = read_text(file, text, variables)
    found: dict[str, Any] = plain(document)
    return found


def reads_as_number(text: str) -> bool:
    """The texts PyYAML writes without quotes and we read as numbers, as YAML 1.2 does: 1e3, -.5, 0o17."""
    return re.fullmatch(r"[-+]?(0o[0-7_]+|(\d[\d_]*\.?[\d_]*|\.\d[\d_]*)([eE][-+]?\d+)?)", text) is not None


def as_documented(value: Any) -> Any:
    """What safe_load gives, with the documented differences."""
    if isinstance(value, dict):
        return {key: as_documented(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [as_documented(inner) for inner in value]
    if isinstance(value, str) and reads_as_number(value) and yaml.safe_load(value) == value:
        return resolve_plain(value)
    return value


@EXAMPLES
@given(documents)
@example({"<<": {"a": 1}, "b": "<<"})
@example(
    {"a": ["", "null", "yes", "1", "0x1f", "2020-01-01", "12:30", "1_000", "#x", "- x", ": ", "\ttab", "\x85", "é"]}
)
@example({"a": [10**30, -0.0, 1e300, float("inf"), 1.5e-7], "k" * 200: {}})
def test_what_pyyaml_writes_is_read_back_as_it_reads_it(file: Path, data: dict[str, Any]) -> None:
    text = yaml.safe_dump(data)
    if not data:
        return
    assert read_one(file, text) == as_documented(yaml.safe_load(text))


@EXAMPLES
@given(documents.filter(bool), st.sampled_from([None, 2]), st.booleans())
def test_json_is_read_as_json(file: Path, data: dict[str, Any], indent: int | None, only_ascii: bool) -> None:
    """But for what JSON allows and YAML does not: DEL and C1 control characters without an escape."""
    text = json.dumps(
        data, indent=indent, ensure_ascii=only_ascii or not json.dumps(data, ensure_ascii=False).isprintable()
    )
    if "Infinity" not in text and "\\ud" not in text:
        assert read_one(file, text) == data


@EXAMPLES
@given(st.text("+-.0123456789eExXob_:aAfF", min_size=1, max_size=9))
@example("08")
@example("-e5")
@example(".e5")
@example("1_000")
@example("0x_")
def test_an_unquoted_scalar_is_what_pyyaml_takes_it_for(token: str) -> None:
    if token in ("---", "..."):
        return  # the marks of a document, where a line is nothing else
    try:
        expected = yaml.safe_load(token)
    except (yaml.YAMLError, ValueError):
        return  # `- x`, `a: b`, and 0x_, on which PyYAML stumbles
    if isinstance(expected, list | dict):
        return
    found = resolve_plain(token)
    if isinstance(expected, date | datetime) or (":" in token and isinstance(expected, int | float)):
        assert found == token
    elif isinstance(expected, str) and not isinstance(found, str):
        assert reads_as_number(token)
    else:
        assert (type(found), found) == (type(expected), expected) or math.isnan(found)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("2026-01-23", "2026-01-23"),
        ("2026-01-23 14:30:00", "2026-01-23 14:30:00"),
        ("12:30", "12:30"),
        ("190:20:30.15", "190:20:30.15"),
        ("1e3", 1000.0),
        ("2.5E-3", 0.0025),
        ("-.5", -0.5),
        ("0o17", 15),
        ("017", 15),
        ("08", "08"),
        ("0x1F", 31),
        ("1_000", 1000),
        ("-e5", "-e5"),
        (".", "."),
        ("=", "="),
        ("yes", True),
        ("Off", False),
        ("y", "y"),
        ("~", None),
        ("", None),
        ("1" * 500, "1" * 500),
    ],
)
def test_documented_readings_of_unquoted_scalars(file: Path, text: str, value: object) -> None:
    found = read_one(file, f"a: {text}\n")["a"]
    assert (type(found), found) == (type(value), value)


def test_keys_are_always_text(file: Path) -> None:
    text = "1: a\ntrue: b\n2.50: c\n2026-01-23: d\n~: e\nyes: f\n"
    assert list(read_one(file, text)) == ["1", "true", "2.50", "2026-01-23", "~", "yes"]


def test_every_value_knows_its_line(file: Path) -> None:
    text = "# a comment\na: 1\nb:\n  - x\n  - c: >-\n      folded\n      text\n    d: [1,\n      2]\n"
    (document,) = read_text(file, text)
    lines = {path: place.line for path, _, place in leaves(document, Place("", 0))}
    assert lines == {("a",): 2, ("b", 0): 4, ("b", 1, "c"): 5, ("b", 1, "d", 0): 8, ("b", 1, "d", 1): 9}


def test_anchors_aliases_and_merge_keys_work(file: Path) -> None:
    text = """
        base: &base {a: 1, b: &two 2, nested: {deep: true}}
        more: &more {b: 3, c: 4}
        one: {<<: *base, b: *two, d: 5}
        two: {<<: [*more, *base]}
        three: [*base, *two]
        &key four: *key
        *key : five
    """
    expected = yaml.safe_load(text)
    assert read_one(file, text) == expected
    assert expected["two"]["b"] == 3


def test_own_keys_win_over_merged_ones_wherever_the_merge_key_stands(file: Path) -> None:
    assert read_one(file, "x: &x {a: 1}\ny: {a: 2, <<: *x}\n")["y"] == {"a": 2}
    assert read_one(file, "x: &x {a: 1}\ny: {<<: *x, a: 2}\n")["y"] == {"a": 2}


def test_a_quoted_merge_key_is_an_ordinary_key(file: Path) -> None:
    assert read_one(file, "x: {'<<': {a: 1}}\n")["x"] == {"<<": {"a": 1}}


def test_tags_of_plain_yaml_are_taken(file: Path) -> None:
    text = "a: !!str 1\nb: !!int '1'\nc: !!float '1.5'\nd: !!bool 'yes'\ne: !!null ''\nf: !!map {}\ng: !!seq []\n"
    assert read_one(file, text) == {"a": "1", "b": 1, "c": 1.5, "d": True, "e": None, "f": {}, "g": []}


def test_several_documents_are_several_trees_and_empty_ones_none(file: Path) -> None:
    assert [plain(found) for found in read_text(file, "a: 1\n---\n---\n# nothing\n---\nb: 2\n...\n")] == [
        {"a": 1},
        {"b": 2},
    ]


def test_anchors_do_not_reach_into_the_next_document(folder: Folder) -> None:
    assert folder.mistakes("x-a: &a 1\n---\nx-b: *a\n") == ["matrix.yaml:3: *a refers to no anchor before it"]


def test_a_byte_order_mark_and_windows_line_ends_do_no_harm(file: Path) -> None:
    assert read_one(file, "\ufeffa: 1\r\nb: |\r\n  two\r\n  lines\r\n") == {"a": 1, "b": "two\nlines\n"}


def test_characters_that_fall_on_the_border_of_two_pieces_are_read(folder: Folder) -> None:
    """The file is checked in pieces of 256 kB."""
    for shift in range(4):
        padding = "#" + "x" * (256 * 1024 - 4 + shift) + "\n"
        assert folder.mistakes(padding + "é€🙂: 1\n") != []
    wrong = b"#" + b"x" * (256 * 1024 - 2) + b"\n" + b"# \xe2\x82\n"
    assert folder.mistakes(wrong) == ["matrix.yaml:2: found byte 0xe2, expected YAML text in UTF-8"]
    cut_off = b"#" + b"x" * (256 * 1024 - 3) + b"\xe2\x82"
    assert folder.mistakes(cut_off) == ["matrix.yaml:1: found byte 0xe2, expected YAML text in UTF-8"]


def test_as_many_levels_as_are_allowed_are_read(folder: Folder) -> None:
    assert folder.load("x-a: " + "[" * 63 + "]" * 63).files
    assert folder.mistakes("x-a: " + "[" * 64 + "]" * 64) == ["matrix.yaml:1: nested more than 64 deep"]


def test_variables_are_filled_in_and_typed_like_what_they_stand_in_for(file: Path) -> None:
    variables = {"N": "8", "ON": "false", "WORD": "word", "ZERO": "007", "LONG": "1.50", "SHA": "7e12345", "EMPTY": ""}
    text = """
        number: ${N}
        switch: ${ON}
        word: a ${WORD} b
        nothing: ${NONE:-}
        default: ${NONE:-3}
        empty: ${EMPTY:-unset}
        quoted: "${N}"
        escaped: $${N}
        dollar: $N
    """
    found = read_one(file, text, variables)
    assert found == {
        "number": 8,
        "switch": False,
        "word": "a word b",
        "nothing": None,
        "default": 3,
        "empty": "unset",
        "quoted": "8",
        "escaped": "${N}",
        "dollar": "$N",
    }
    kept = read_one(file, "a: ${ZERO}\nb: ${LONG}\nc: ${SHA}\n", variables)
    assert kept == {"a": "007", "b": "1.50", "c": "7e12345"}, "reading these as numbers would lose what was written"


def test_a_quoted_variable_is_remembered_as_filled_and_an_undefined_one_as_such(file: Path) -> None:
    (document,) = read_text(file, 'a: "${N}"\nb: ${M}\nargs: ${M} ${N}\nenv: {A: "${N}"}\n', {"N": "8"})
    assert isinstance(document["a"], Filled)
    assert isinstance(document["b"], Undefined)
    assert document["b"].variables == ("M",)
    assert document["args"] == "${M} ${N}", "filled in when a run is planned, word by word"
    assert document["env"] == {"A": "${N}"}


def test_an_alias_takes_the_text_not_what_it_became_elsewhere(file: Path) -> None:
    (document,) = read_text(file, "x-common: &common --in ${DIR}\nargs: *common\nother: *common\n", {"DIR": "/my data"})
    assert document["args"] == "--in ${DIR}"
    assert document["other"] == "--in /my data"


def test_hostile_variables_are_filled_in_without_delay(file: Path) -> None:
    """Backtracking over what can be read in two ways took time that doubled with each further `${x}`."""
    text = "a: '${A:-" + "${x}" * 5000 + "'\nb: '" + "${A:-" * 5000 + "'\nc: '" + "{dataset:" * 5000 + "'\n"
    (document,) = read_text(file, text)
    assert isinstance(document["a"], Undefined)
    assert document["b"] == "${A:-" * 5000
