"""Numbers are replaced in the text of a matrix, and nothing else."""

from __future__ import annotations

from pathlib import Path

import pytest

from curator_bench.calibration.proposals import limits_of
from curator_bench.calibration.yaml_edits import MatrixText, Spot, Written
from curator_bench.errors import BenchError
from curator_bench.values import Entry, MatrixFile, Place, Requirement

TEXT = """\
# The nightly.
max_timeout_s: 900   # of all
entries:
  - name: sort          # the first
    script: sort.py
    requirements: &both
      - {metric: time_s,   max_value: 60}     # generous
      - metric: "rows/s"
        min_value: "990"

  - {name: flow, script: sort.py, timeout_s: 20, requirements: *both}
  - name: older
    <<: {timeout_s: 30}
    requirements:
      time_s: {max_value: "${LIMIT}", max_regression: 10%}
---
entries: [{name: sort, timeout_s: 1.5e2}]
"""


def read(folder: Path, text: str = TEXT) -> MatrixText:
    file = folder / "matrix.yaml"
    file.write_bytes(text.encode())
    return MatrixText(file)


def found(text: MatrixText, entry: str, metric: str = "") -> Written:
    return next(one for one in text.numbers if (one.entry, one.metric) == (entry, metric))


def test_numbers_are_found_wherever_they_may_stand(tmp_path: Path) -> None:
    text = read(tmp_path)
    assert [(one.entry, one.metric, one.key, one.number, one.spot.line) for one in text.numbers] == [
        ("sort", "", "timeout_s", None, 4),
        ("sort", "time_s", "max_value", 60, 7),
        ("sort", "rows/s", "min_value", 990, 9),
        ("flow", "", "timeout_s", 20, 11),
        ("flow", "time_s", "max_value", 60, 7),
        ("flow", "rows/s", "min_value", 990, 9),
        ("older", "", "timeout_s", 30, 13),
        ("older", "time_s", "max_value", None, 15),
        ("sort", "", "timeout_s", 150, 17),
    ]
    assert text.longest_timeout_s == 900


@pytest.mark.parametrize("line_end", ["\n", "\r\n"])
def test_all_else_stays_to_the_character(tmp_path: Path, line_end: str) -> None:
    text = read(tmp_path, TEXT.replace("\n", line_end))
    new = {
        found(text, "sort").spot: "75",
        found(text, "sort", "time_s").spot: "14.4",
        found(text, "sort", "rows/s").spot: "880",
        found(text, "flow").spot: "26",
    }
    expected = (
        TEXT.replace("max_value: 60}", "max_value: 14.4}")
        .replace('"990"', "880")
        .replace("timeout_s: 20", "timeout_s: 26")
    )
    expected = expected.replace("# the first\n", "# the first\n    timeout_s: 75\n")
    assert text.replaced(list(new.items())) == expected.replace("\n", line_end)


def test_a_timeout_is_added_within_braces_and_at_the_end(tmp_path: Path) -> None:
    text = read(tmp_path, "entries: [{name: a, script: b}, {script: b, name: c}]")
    assert text.replaced([(found(text, "a").spot, "1"), (found(text, "c").spot, "2")]) == (
        "entries: [{name: a, timeout_s: 1, script: b}, {script: b, name: c, timeout_s: 2}]"
    )
    text = read(tmp_path, "entries:\n- script: b\n  name: a")
    assert text.replaced([(found(text, "a").spot, "1")]) == "entries:\n- script: b\n  name: a\n  timeout_s: 1"


def test_requirements_are_added_where_they_belong(tmp_path: Path) -> None:
    text = read(
        tmp_path,
        """\
entries:
  - name: block
    requirements:
      - {metric: a, max_value: 1}
      - metric: b
        max_value: 2   # the last

  # another
  - {name: braces, requirements: [{metric: a, max_value: 1}]}
  - name: none   # yet
    script: s.py
  - {name: one, requirements: &both [{metric: a, max_value: 1}]}
  - {name: other, requirements: *both}
""",
    )
    wanted = [("block", "c_s"), ("block", "on"), ("braces", "c_s"), ("none", "c_s")]
    new = [text.new_requirement(entry, metric, "max_value") for entry, metric in wanted]
    assert [text.new_requirement(entry, "c_s", "max_value") for entry in ("one", "other", "missing")] == [None] * 3
    assert text.new_requirement("none", "d_s", "max_value") is None  # one at a time
    changed = text.replaced([(one.spot, "7") for one in new if one])
    assert [line for line in changed.splitlines() if "7" in line] == [
        '      - {metric: "on", max_value: 7}',
        "      - {metric: c_s, max_value: 7}",
        "  - {name: braces, requirements: [{metric: a, max_value: 1}, {metric: c_s, max_value: 7}]}",
        "    requirements: [{metric: c_s, max_value: 7}]",
    ]
    assert "        max_value: 2   # the last\n      - {metric" in changed
    assert len(MatrixText(written(tmp_path, changed)).numbers) == len(text.numbers) + 4


def test_a_suite_has_one_place_for_the_limits_of_its_benchmarks(tmp_path: Path) -> None:
    text = read(
        tmp_path,
        """\
entries:
  - asv: perf   # all of it
    requirements: [{metric: time_s, max_value: 1}]
  - {asv: perf, bench: a, timeout_s: 5}
""",
    )
    folder = MatrixFile(str(tmp_path / "matrix.yaml"), str(tmp_path))
    required = (Requirement("time_s", max_value=1),)

    def entry(name: str, line: int, timeout_s: float) -> Entry:
        place = Place(folder.file, line)
        return Entry(name, place, folder, "a.py", asv="perf", timeout_s=timeout_s, requirements=required[: 3 - line])

    def limits(*entries: Entry) -> dict[tuple[tuple[str, ...], str], int | None]:
        found = limits_of(entries, {folder.file: text}, ())
        return {(one.names, one.key): one.written.spot.line if one.written else None for one in found}

    both = ("a.time_x", "a.time_y")
    same = limits(entry("a.time_x", 2, 60), entry("a.time_y", 2, 60), entry("a.time_z", 4, 5))
    assert same == {(both, "max_value"): 3, (both, "timeout_s"): 2, (("a.time_z",), "timeout_s"): 4}
    own = limits(entry("a.time_x", 2, 60), entry("a.time_y", 2, 90))  # one line cannot say both
    assert own == {(both, "max_value"): 3, (both[:1], "timeout_s"): None, (both[1:], "timeout_s"): None}
    assert "asv: perf   # all of it\n    timeout_s: 9\n" in text.replaced([(found(text, "asv:2").spot, "9")])


def written(folder: Path, text: str) -> Path:
    (folder / "matrix.yaml").write_text(text)
    return folder / "matrix.yaml"


def test_a_text_that_would_say_something_else_is_refused(tmp_path: Path) -> None:
    text = read(tmp_path)
    at = TEXT.index("sort.py")
    with pytest.raises(BenchError, match="write them by hand"):
        text.replaced([(Spot(at, at + 7, 5), "12")])
    with pytest.raises(BenchError, match="not valid YAML"):
        read(tmp_path, "entries: [")
    (tmp_path / "matrix.yaml").write_bytes(b"\xff\xfe")
    with pytest.raises(BenchError, match="cannot be read"):
        MatrixText(tmp_path / "matrix.yaml")
