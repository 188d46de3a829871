"""The page that shows a metric by two axes, in a real browser, and where the values of the axes come from."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import axes_history as history
import pytest
import warm
from playwright.sync_api import Locator, Page, ViewportSize, expect
from real_browser import DESK, PHONE, Open, address_of, assert_accessible, report, unfold

pytest_plugins = ("browser_pages",)
in_browser = pytest.mark.slow
NEWEST, BEFORE = history.session_of(history.NIGHTS - 1), history.session_of(history.NIGHTS - 2)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("axes")
    history.make(folder)
    report(folder, "--out", "site")
    return folder / "site"


def grid(page: Page) -> Locator:
    return page.get_by_role("region", name=re.compile("by its axes$")).get_by_role("table")


def cell(page: Page, row: str, column: str) -> Locator:
    """The cell below and beside these headers."""
    expect(grid(page)).to_be_visible()
    heads = grid(page).get_by_role("columnheader").all_inner_texts()
    return (
        grid(page)
        .get_by_role("row")
        .filter(has=page.get_by_role("rowheader", name=row))
        .locator("> *")
        .nth(heads.index(column))
    )


IDS = {"Entry": "entry", "Metric": "metric", "Columns": "columns", "Session": "b", "Against": "a"}


def choose(page: Page, **choices: str) -> None:
    for label, value in choices.items():
        page.locator(f"#controls #{IDS[label]}").select_option(label=value)


@in_browser
def test_a_metric_stands_where_two_axes_meet_with_what_the_newest_session_changed(open_page: Open) -> None:
    page = open_page("axes.html")
    choose(page, Entry=history.ENTRY, Metric="read_s")
    expect(page.get_by_role("status").first).to_contain_text(
        f"read_s (less is better) in {NEWEST} against {BEFORE}: 1 regression, 1 improvement"
    )
    slower, faster = cell(page, "16k", "small"), cell(page, "2k", "large")
    expect(slower).to_have_text(re.compile(r"2\.\d\d s\+(29|3\d)\.\d % regression"))
    expect(slower).to_have_class(re.compile("worse-3"))
    expect(faster).to_have_text(re.compile(r"0\.\d+ s−(29|3\d)\.\d % improvement"))
    expect(cell(page, "128k", "large")).to_have_text("crashed")
    slower.get_by_role("link").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("reading[small-16k-fp16]")
    page.get_by_role("link", name="reading by its axes").click()
    expect(page.get_by_label("Entry")).to_have_value(re.compile("^reading-"))


@in_browser
def test_axes_that_are_neither_rows_nor_columns_are_chosen_and_the_address_keeps_the_view(open_page: Open) -> None:
    page = open_page("axes.html")
    choose(page, Entry=history.ENTRY, Metric="read_s")
    expect(grid(page).get_by_role("columnheader")).to_have_text(["context ↓ model →", "large", "small"])
    page.locator("[data-axis=precision]").select_option(label="int8")
    expect(grid(page)).not_to_contain_text("regression")
    choose(page, Columns="precision")
    page.get_by_role("button", name="Swap rows and columns").click()
    choose(page, Session=re.sub(r"$", " (2026-01-11 02:30)", history.session_of(10)), Against="no other session")
    linked = open_page(address_of(page).rpartition("/")[2])
    expect(grid(linked).get_by_role("columnheader")).to_have_text(["precision ↓ context →", "2k", "16k", "128k"])
    expect(linked.locator("[data-axis=model]")).to_have_value("0")
    expect(grid(page)).to_have_text(grid(linked).inner_text(), use_inner_text=True)
    expect(cell(linked, "fp16", "128k")).to_have_class(re.compile("shade-5"))
    expect(linked.locator("#terminal")).to_have_text(
        f"curator-bench pivot {history.session_of(10)} --rows precision --columns context --metric read_s"
    )


@in_browser
def test_one_axis_is_a_row_and_pairs_that_are_not_judged_say_so(open_page: Open) -> None:
    page = open_page("axes.html")
    choose(page, Entry=history.SINGLE, Metric="read_s")
    expect(grid(page).locator("tbody tr")).to_have_count(1)
    expect(grid(page).get_by_role("columnheader")).to_have_text(["context", "2k", "16k", "128k"])
    choose(page, Against=f"{history.session_of(3)} (2026-01-04 02:30)")
    expect(page.get_by_role("status").first).to_contain_text(
        f"run: curator-bench compare {history.session_of(3)} {NEWEST}"
    )
    expect(cell(page, "read_s", "16k")).to_have_text(re.compile(r"s[+−]\d\.\d %$"))


@in_browser
@pytest.mark.parametrize("size", [DESK, PHONE], ids=["desk", "phone"])
@pytest.mark.parametrize("place", ["", "&a=none"], ids=["compared", "shaded"])
def test_the_page_of_axes_is_accessible_and_fits_the_screen(open_page: Open, place: str, size: ViewportSize) -> None:
    page = open_page("axes.html", color_scheme="light", viewport=size)
    choose(page, Entry=history.ENTRY, Metric="read_s")
    if place:
        choose(page, Against="no other session")
    expect(cell(page, "16k", "small")).to_be_visible()
    assert_accessible(page, size)
    page.emulate_media(color_scheme="dark")
    assert_accessible(page, size)


@in_browser
def test_parameters_and_variables_are_among_what_differs_and_bookkeeping_is_not_compared(open_page: Open) -> None:
    page = open_page("compare.html")
    differs = page.get_by_role("region", name="What differs").get_by_role("row")
    expect(
        differs.filter(has_text="parameter scale of loading[128k], loading[16k], loading[2k] and 12 more")
    ).to_contain_text(re.compile("100.*1000"))
    expect(differs.filter(has_text="variable OMP_NUM_THREADS")).to_contain_text("another value")
    expect(differs.filter(has_text="HOME")).to_have_count(0)
    parts = page.locator("details.part")
    expect(parts.first).to_be_visible()
    unfold(page)
    expect(page.locator("#compared")).to_contain_text("task_read_time_s_mean")
    assert "_std" not in page.locator("#compared").inner_text()


def families(folder: Path) -> list[dict[str, Any]]:
    report(folder, "--out", "site")
    text = (folder / "site" / "data" / "axes.js").read_text()
    found: list[dict[str, Any]] = json.loads(text.partition(",")[2].rstrip().removesuffix(");"))
    return found


def test_pytest_records_the_names_of_axes(tmp_path: Path) -> None:
    (tmp_path / "work.py").write_text("""
import json, pathlib, sys
results = pathlib.Path(sys.argv[-1])
results.joinpath("params.json").write_text("{}")
results.joinpath("metrics.json").write_text(json.dumps({"done": 1}))
""")
    (tmp_path / "matrix.yaml").write_text("""
entries:
  - name: sort
    script: work.py
    matrix: {size: [2, 10], kind: [as-is, reversed]}
    args: "{size} {kind}"
    ray: false
""")
    (tmp_path / "test_python.py").write_text("""
import pytest

@pytest.mark.parametrize("text", ["a-b", "c"])
@pytest.mark.parametrize("number", [1, 2])
def test_words(text, number, benchmark_time):
    pass
""")
    done = warm.run("pytest", "matrix.yaml", "test_python.py", "--benchmark", "-q", cwd=tmp_path)
    assert done.returncode == 0, done.stdout
    found = {one["name"]: one["axes"] for one in families(tmp_path)}
    assert found["sort"] == [["size", ["2", "10"]], ["kind", ["as-is", "reversed"]]]
    assert sorted(found["test_words"]) == [["number", ["1", "2"]], ["text", ["a-b", "c"]]]


def test_axes_of_runs_of_other_tools_are_found_among_their_parameters(tmp_path: Path) -> None:
    lines = [
        {"name": f"float[{build}-{size}]", "metric": "time_s", "value": 1.0, "session": "s", "level": 3}
        | {"time": "2026-01-01T00:00:00+00:00", "build": build, "size": size}
        for build in ("gil", "no-gil")
        for size in (2, 3)
    ]
    other = [{"name": f"plain[{name}]", "metric": "time_s", "value": 1.0, "session": "s"} for name in ("a", "b-c")]
    other = [one | {"time": "2026-01-01T00:00:00+00:00"} for one in other]
    (tmp_path / "lines.jsonl").write_text("".join(json.dumps(line) + "\n" for line in [*lines, *other]))
    warm.run("curator-bench", "import", "lines.jsonl", "--db", "benchmark.db", cwd=tmp_path).check_returncode()
    found = {one["name"]: one["axes"] for one in families(tmp_path)}
    assert found == {
        "float": [["build", ["gil", "no-gil"]], ["size", ["2", "3"]]],
        "plain": [["variant", ["a", "b-c"]]],
    }
