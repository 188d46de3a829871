"""The dashboard, opened in a real browser as people open it: from a folder."""

from __future__ import annotations

import functools
import http.server
import json
import re
import threading
from pathlib import Path

import nightly_history as nights
import pytest
import warm
from playwright.sync_api import Browser, Position, ViewportSize, expect
from real_browser import DESK, PHONE, Open, address_of, assert_accessible, page_of, report, unfold

pytest_plugins = ("browser_pages",)
pytestmark = pytest.mark.slow

SLOW_COMMIT, LAST_GOOD_COMMIT = nights.commit_of(nights.SLOWER_FROM), nights.commit_of(nights.SLOWER_FROM - 1)


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a history, and the site made of it."""
    folder = tmp_path_factory.mktemp("project")
    nights.make(folder)
    report(folder, "--out", "site", "--copy-logs")
    return folder


@pytest.fixture
def site(project: Path) -> Path:
    return project / "site"


def test_a_planted_step_is_on_the_overview_at_the_right_commit(open_page: Open) -> None:
    page = open_page("index.html")
    latest = page.get_by_role("region", name="Latest session")
    expect(latest.get_by_role("link", name=nights.session_of(nights.NIGHTS - 1), exact=True)).to_be_visible()
    expect(latest).to_contain_text("4 passed")
    worse = page.get_by_role("article")
    expect(worse).to_have_count(1)
    expect(worse).to_contain_text(nights.SLOWED)
    expect(worse).to_contain_text(f"{LAST_GOOD_COMMIT[:10]} → {SLOW_COMMIT[:10]}")
    expect(worse).to_contain_text("ray 2.59.0 → 2.60.0")
    expect(worse.get_by_role("img", name=nights.METRIC)).to_be_visible()
    expect(worse.locator(".change")).to_have_text(re.compile(r"\+[56]\.\d %"))
    expect(page.get_by_role("region", name="Improvements")).to_contain_text(nights.SPED_UP)
    broken = page.get_by_role("region", name="What is broken").locator("tbody tr")
    expect(broken).to_have_count(1)
    expect(broken).to_contain_text(nights.session_of(nights.BROKEN_FROM))
    worse.get_by_role("link", name=nights.SLOWED, exact=True).click()
    expect(page.get_by_role("heading", level=1)).to_have_text(nights.SLOWED)


def test_an_entry_shows_its_metrics_with_levels_and_steps(open_page: Open, site: Path) -> None:
    page = open_page(page_of(site, "entries", "removal-ray-data-dense"))
    chart = page.locator(f".chart[data-metric={nights.METRIC}]")
    expect(chart.locator("canvas")).to_be_visible()
    expect(chart.locator(".summary")).to_contain_text(
        re.compile(rf"regression of \+\d\.\d % \(open\) since 2026-01-31 02:30, commit {SLOW_COMMIT[:10]}")
    )
    page.wait_for_function(  # until the chart is drawn: at first it is empty
        """metric => {
            const canvas = document.querySelector(`.chart[data-metric=${metric}] canvas`);
            const pixels = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height).data;
            return new Set(new Uint32Array(pixels.buffer)).size > 20;
        }""",
        arg=nights.METRIC,
    )
    chart.get_by_role("button", name="Values as a table").click()
    expect(chart.locator(".values tbody tr")).to_have_count(nights.NIGHTS)


def test_runs_of_a_chart_can_be_walked_held_and_linked_to_by_keyboard(open_page: Open, site: Path) -> None:
    page = open_page(page_of(site, "entries", "removal-ray-data-dense"))
    chart = page.locator(f".chart[data-metric={nights.METRIC}]")
    chart.locator(".plot[role=application]").focus()
    page.keyboard.press("End")
    for _ in range(nights.NIGHTS - 1 - nights.SLOWER_FROM):
        page.keyboard.press("ArrowLeft")
    tip = chart.get_by_role("status")
    for said in (SLOW_COMMIT[:10], nights.session_of(nights.SLOWER_FROM), "nemo_curator 1.3.0", "regression: +"):
        expect(tip).to_contain_text(said)
    page.keyboard.press("Enter")
    held = chart.locator(".held")
    expect(held.get_by_role("link", name=nights.session_of(nights.SLOWER_FROM))).to_be_visible()

    linked = open_page(address_of(page).removeprefix(f"{site.as_uri()}/"))
    expect(linked.locator(f".chart[data-metric={nights.METRIC}] .held")).to_contain_text(SLOW_COMMIT[:10])
    linked.get_by_role("link", name="what differs from the run before").click()
    differences = linked.get_by_role("region", name="What differs")
    expect(differences.get_by_role("row", name="ray")).to_contain_text("2.59.0")
    expect(differences.get_by_role("row", name="ray")).to_contain_text("2.60.0")


def test_a_run_under_the_mouse_says_what_it_was_and_a_click_leads_to_its_log(open_page: Open, site: Path) -> None:
    page = open_page(page_of(site, "entries", "removal-ray-data-dense"))
    chart = page.locator(f".chart[data-metric={nights.METRIC}]")
    over = chart.locator(".u-over")
    box = over.bounding_box()
    assert box
    newest: Position = {"x": box["width"] - 1, "y": box["height"] / 2}
    over.hover(position=newest)  # which waits until the page has come to rest
    expect(chart.get_by_role("status")).to_contain_text(nights.session_of(nights.NIGHTS - 1))
    over.click(position=newest)
    chart.locator(".held").get_by_role("link", name="log").click()
    page.wait_for_url(re.compile(r"/logs/.+\.txt$"))
    expect(page.locator("body")).to_contain_text(nights.EVIL)


def slug_of(site: Path, night: int) -> str:
    return Path(page_of(site, "sessions", nights.session_of(night).replace("_", "-"))).stem


def test_what_is_chosen_in_a_chart_is_in_the_address(open_page: Open, site: Path) -> None:
    page = open_page(page_of(site, "entries", "removal-ray-data-dense"))
    plot = page.locator(f".chart[data-metric={nights.METRIC}] .plot")
    over = plot.locator(".u-over")
    box = over.bounding_box()
    assert box
    over.hover(position={"x": box["width"] / 2, "y": 50})  # which waits until the page has come to rest
    box = over.bounding_box()
    assert box
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] * 0.75, box["y"] + 50, steps=5)
    page.mouse.up()
    expect(page.get_by_role("button", name="Show the whole range")).to_be_visible()
    linked = open_page(address_of(page).removeprefix(f"{site.as_uri()}/"))
    linked.get_by_role("button", name="Show the whole range").click()
    expect(linked.get_by_role("button", name="Show the whole range")).to_be_hidden()


def test_lines_of_other_branches_are_drawn_beside_it(open_page: Open, site: Path) -> None:
    page = open_page(page_of(site, "entries", "removal-ray-data-dense"))
    page.get_by_role("checkbox", name="branch main").check()
    expect(page.get_by_role("list", name="Lines").first.get_by_role("listitem")).to_have_text(
        ["this one", "branch main"]
    )
    linked = open_page(address_of(page).removeprefix(f"{site.as_uri()}/"))
    expect(linked.get_by_role("checkbox", name="branch main")).to_be_checked()
    linked.locator(".chart").first.get_by_role("button", name="Values as a table").click()
    expect(linked.locator(".values tbody tr")).to_have_count(2 * nights.NIGHTS - 1)


def test_ticks_of_an_axis_are_told_apart(open_page: Open, site: Path) -> None:
    page = open_page(page_of(site, "entries", "removal-ray-data-dense"))
    ticks = "([values, metric]) => bench.words.ticks(values, metric)"
    for values, metric, shown in (
        ([0.070, 0.071, 0.072], "time_s", ["70 ms", "71 ms", "72 ms"]),
        ([0.8, 0.825, 0.85], "time_s", ["0.800 s", "0.825 s", "0.850 s"]),
        ([0, 3600, 7200, 10800], "time_s", ["0 h", "1 h", "2 h", "3 h"]),
        ([3221225472, 3758096384], "memory_bytes", ["3.0 GiB", "3.5 GiB"]),
        ([1000, 1500], "docs_per_s", ["1,000", "1,500"]),
    ):
        assert page.evaluate(ticks, [values, metric]) == shown


def test_the_map_shows_where_a_level_was_left(open_page: Open) -> None:
    table = open_page("index.html").get_by_role("region", name="Entries and sessions")
    expect(table.locator("thead th")).to_have_count(30)
    row = table.locator("tbody tr").filter(has_text=nights.SLOWED)
    worse = row.locator("td[class^=worse]")
    expect(worse).to_have_count(3)
    expect(worse.first).to_have_attribute("title", re.compile(nights.session_of(nights.SLOWER_FROM)))


def test_two_sessions_are_compared_in_the_words_of_compare_and_the_address_says_which(
    open_page: Open, site: Path, project: Path
) -> None:
    one, other = (slug_of(site, nights.SLOWER_FROM + step) for step in (-1, 0))
    page = open_page(f"compare.html#a={one}&b={other}")
    expect(page.get_by_role("heading", name="On epyc-64")).to_be_visible()
    expect(page.get_by_role("region", name="no change on epyc-64")).to_be_hidden()
    shown = set()
    for part in page.locator("details.part").all():
        word = re.sub(r" \d+$", "", part.locator("summary").inner_text())
        if part.get_attribute("open") is None:
            part.locator("summary").click()
        expect(part.locator("tbody tr").first).to_be_visible()  # filled once the browser has told that it is open
        for row in part.locator("tbody tr").all():
            shown.add((*row.locator("th, td").all_inner_texts()[:2], word))
    words = [nights.session_of(nights.SLOWER_FROM + step) for step in (-1, 0)]
    done = warm.run("curator-bench", "compare", *words, "--json", cwd=project)
    said = {(one["entry"], one["metric"], one["verdict"]) for one in json.loads(done.stdout)}
    assert {cells for cells in shown if cells[2] not in ("another verdict", "no direction")} == said
    page.get_by_role("button", name="Swap A and B").click()
    expect(page.locator("#said")).to_contain_text("This pair is not judged here; run: curator-bench compare")
    assert address_of(page).endswith(f"a={other}&b={one}")


def test_a_run_that_ended_otherwise_is_among_what_differs(open_page: Open, site: Path) -> None:
    page = open_page(f"compare.html#a={slug_of(site, 19)}&b={slug_of(site, 44)}")
    rows = page.get_by_role("region", name="another verdict on epyc-64").locator("tbody tr")
    expect(rows.filter(has_text=nights.BROKEN)).to_contain_text("crashed")


def test_search_finds_entries_sessions_commits_and_metrics(open_page: Open) -> None:
    page = open_page("sessions.html")
    page.keyboard.press("/")
    search = page.get_by_role("combobox", name="Search")
    expect(search).to_be_focused()
    for words, found in (
        ("ray_data dense", nights.SLOWED),
        (SLOW_COMMIT[:8], nights.session_of(nights.SLOWER_FROM)),
        ("peak_memory", "metric of removal"),
        ("no such thing", "Nothing found"),
    ):
        search.fill(words)
        expect(page.get_by_role("listbox").get_by_role("option").first).to_contain_text(found)
    search.fill("onerror")
    expect(page.get_by_role("listbox").get_by_role("option").first).to_contain_text(nights.EVIL)
    search.fill("identification")
    expect(page.get_by_role("listbox").get_by_role("option").first).to_contain_text(nights.SPED_UP)
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", level=1)).to_have_text(nights.SPED_UP)


def test_tables_sort_and_filter_and_the_filter_is_in_the_address(open_page: Open) -> None:
    page = open_page("entries.html#show=dedup+crashed")
    rows = page.locator("#all-entries tbody tr:visible")
    expect(rows).to_have_count(1)
    page.get_by_label("Show").fill("")
    expect(rows).to_have_count(5)
    page.get_by_role("button", name="Duration").click()
    expect(rows.first).to_contain_text(nights.LEVEL)
    expect(page.get_by_role("columnheader", name="Duration")).to_have_attribute("aria-sort", "ascending")


def test_colours_follow_the_system_until_somebody_chooses(open_page: Open) -> None:
    page = open_page("index.html", color_scheme="dark")
    background = "getComputedStyle(document.body).backgroundColor"
    assert page.evaluate(background) == "rgb(14, 17, 22)"
    for _ in ("dark", "light"):
        page.get_by_role("button", name="Colours").click()
    assert page.evaluate(background) == "rgb(246, 247, 249)"
    page.reload()
    assert page.evaluate(background) == "rgb(246, 247, 249)"


@pytest.mark.parametrize(("size", "scheme"), [(DESK, "light"), (PHONE, "dark")], ids=["desk", "phone"])
@pytest.mark.parametrize(
    "kind",
    ["index.html", "entries.html", "sessions.html", "compare.html", "entry", "evil", "broken", "session"],
)
def test_every_page_is_accessible_and_fits_the_screen(
    open_page: Open, site: Path, kind: str, size: ViewportSize, scheme: str
) -> None:
    places = {
        "entry": ("entries", "removal-ray-data-dense"),
        "evil": ("entries", "script-window*"),
        "broken": ("entries", "fuzzy-dedup"),
        "session": ("sessions", "nightly-44"),
    }
    path = page_of(site, *places[kind]) if kind in places else kind
    page = open_page(path, color_scheme=scheme, viewport=size)
    if page.locator(".chart").count():
        expect(page.locator(".chart .summary").first).to_be_visible()
        page.locator(".chart .plot").first.focus()
        page.keyboard.press("End")
        page.keyboard.press("Enter")
        page.get_by_role("button", name="Values as a table").first.click()
    if kind.startswith("compare"):
        expect(page.locator("#compared details").first).to_be_visible()
        unfold(page)
    assert_accessible(page, size)


@pytest.mark.parametrize("size", [DESK, PHONE], ids=["desk", "phone"])
def test_no_name_is_too_long_for_the_screen(browser: Browser, tmp_path: Path, size: ViewportSize) -> None:
    lines = nights.long_names(tmp_path)
    warm.run("curator-bench", "import", lines, "--db", "benchmark.db", cwd=tmp_path).check_returncode()
    report(tmp_path, "--out", "site")
    pages = [tmp_path / "site" / name for name in ("index.html", "compare.html", "sessions.html")]
    with browser.new_context(viewport=size) as context:
        page = context.new_page()
        for file in [*pages, *(tmp_path / "site" / "entries").glob("*.html")]:
            page.goto(file.as_uri())
            expect(page.get_by_role("heading", level=1)).to_be_visible()
            if file.stem == "compare":
                expect(page.locator("#a option").first).to_be_attached()
            assert page.evaluate("document.documentElement.scrollWidth") <= size["width"], file
        page.goto(pages[0].as_uri())
        change = page.get_by_role("article").locator(".change").first.bounding_box()
    assert change
    assert size is PHONE or change["x"] < size["width"]


def test_the_lists_need_no_javascript(open_page: Open) -> None:
    page = open_page("index.html", java_script_enabled=False)
    expect(page.get_by_role("article")).to_contain_text(nights.SLOWED)
    page.get_by_role("article").get_by_role("link", name=nights.SLOWED, exact=True).click()
    expect(page.get_by_role("region", name="Metrics", exact=True)).to_contain_text(nights.METRIC)


def test_a_web_server_shows_the_same(open_page: Open, site: Path) -> None:
    handler = functools.partial(_Quiet, directory=str(site))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        base = f"http://127.0.0.1:{server.server_port}"
        page = open_page(page_of(site, "entries", "removal-ray-data-dense"), base)
        expect(page.locator(".chart canvas").first).to_be_visible()
        expect(page.get_by_role("link", name="log").first).to_be_visible()
        server.shutdown()


class _Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: object) -> None:
        pass
