"""A finding on the dashboard shows which stage caused it, as `curator-bench why` says."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from causes.pipelines import record, renamed, runs
from cli.nights import History

from curator_bench.report.site.waterfall import Bar, Waterfall

pytest_plugins = ("browser_pages",)
EVIL = "<script>window.hacked=1</script>"


@pytest.fixture(scope="module")
def history(tmp_path_factory: pytest.TempPathFactory) -> History:
    made = History(tmp_path_factory.mktemp("why_site"))
    record(made, renamed([*runs(14), *runs(10, slower={2: 1.4}, seed=1)], {"stage_2": EVIL}))
    assert made.ask("report", "--out", made.folder / "site").exit_code == 0
    return made


@pytest.fixture
def site(history: History) -> Path:
    return history.folder / "site"


def test_a_finding_shows_what_each_stage_adds_and_what_is_left_last(history: History, site: Path) -> None:
    overview = (site / "index.html").read_text()
    (part,) = re.findall(r'<details class="waterfall-part".*?</details>', overview, re.DOTALL)
    assert "Why, by stages: " in part
    heads = re.findall(r'<th scope="row">(.*?)</th>', part)
    assert heads[0].startswith("&lt;script&gt;")
    assert heads[-2:] == ["unexplained", "in all"]
    assert part.count("w-regression") == 1
    assert EVIL not in overview
    said = re.findall(r"<p>(regression: .*?)</p>", part)
    assert len(said) == 1
    assert said[0].replace("&lt;", "<").replace("&gt;", ">") in history.ask("why", "pipeline", "time_taken_s").output


def test_bars_begin_where_the_one_above_ends_and_reach_the_total() -> None:
    bars = (Bar("a", 3.0), Bar("b", -1.0), Bar("unexplained", 0.5))
    fall = Waterfall("time_s", 10.0, 12.5, bars, (), (), (8, 8))
    first, second, last = fall.drawn
    assert first.x == fall.zero
    assert second.x + second.width == pytest.approx(first.end, abs=0.2)
    assert last.x == pytest.approx(second.end, abs=0.2)
    assert last.end == pytest.approx(fall.total.end, abs=0.2)
    assert [one.shade for one in fall.drawn] == ["more", "less", "more"]


def test_an_update_shows_the_stages_of_new_runs_and_is_byte_for_byte_a_new_site(tmp_path: Path) -> None:
    history, site, fresh = History(tmp_path), tmp_path / "site", tmp_path / "fresh"
    found = [*runs(14), *runs(10, slower={2: 2.0}, seed=1)]
    record(history, found)
    assert history.ask("report", "--out", site).exit_code == 0
    before = _runs_of(site)
    assert "(nothing changed)" in history.ask("report", "--out", site).output
    record(history, [*found, *runs(2, slower={2: 2.0}, seed=7)], begin=len(found))
    for folder in (site, fresh):
        assert history.ask("report", "--out", folder).exit_code == 0
    assert _runs_of(site) == (before[0], before[1] + 2)
    assert _contents(site) == _contents(fresh)


def _runs_of(site: Path) -> tuple[int, int]:
    """The runs of both sides, as the page says them."""
    (found,) = re.findall(r"from (\d+) and (\d+) runs", (site / "index.html").read_text())
    return int(found[0]), int(found[1])


def _contents(site: Path) -> dict[str, bytes]:
    return {path.relative_to(site).as_posix(): path.read_bytes() for path in site.rglob("*") if path.is_file()}


def test_a_finding_without_stages_has_no_such_part(tmp_path: Path) -> None:
    history = History(tmp_path)
    history.nights({("bare", "time_s"): [1.0 + 0.001 * (night % 3) + 0.3 * (night > 20) for night in range(40)]})
    assert history.ask("report", "--out", tmp_path / "site").exit_code == 0
    overview = (tmp_path / "site" / "index.html").read_text()
    assert 'class="card finding"' in overview
    assert "waterfall" not in overview


@pytest.mark.slow
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("name", ["desk", "phone"])
def test_the_waterfall_is_accessible_and_fits_the_screen(open_page: object, name: str, scheme: str) -> None:
    from playwright.sync_api import expect
    from real_browser import DESK, PHONE, assert_accessible

    size = {"desk": DESK, "phone": PHONE}[name]
    page = open_page("index.html", color_scheme=scheme, viewport=size)  # type: ignore[operator]
    stages = page.locator(".waterfall-part")
    expect(stages.get_by_role("row").nth(6)).to_be_visible()
    box = stages.locator("svg rect.more").first.bounding_box()
    assert box
    assert box["width"] > 20
    summary = stages.locator("summary")
    summary.focus()
    page.keyboard.press("Enter")
    expect(stages.get_by_role("table")).to_be_hidden()
    page.keyboard.press("Enter")
    expect(stages.get_by_role("table")).to_be_visible()
    assert page.evaluate("window.hacked") is None
    assert_accessible(page, size)
