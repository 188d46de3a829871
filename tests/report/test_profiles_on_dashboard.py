"""The dashboard shows the profiles of runs that have some as flame graphs, and is as before where there are none."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from causes.profiled import profiles, record_profiles
from cli.nights import History

from curator_bench.report.site.profiles import data_of
from curator_bench.values.profiles import OTHER, Profile

pytest_plugins = ("browser_pages",)
EVIL = "<script>window.hacked=1</script>:f"
NIGHTS, PROFILED = 12, 4


@pytest.fixture(scope="module")
def history(tmp_path_factory: pytest.TempPathFactory) -> History:
    """Nights of two entries; the last nights of one have profiles, in the last of which `words:clean` takes longer."""
    made = History(tmp_path_factory.mktemp("profiled_site"))
    for entry in ("words", "bare"):
        made.nights({(entry, "time_s"): [1.0 + 0.001 * (night % 3) for night in range(NIGHTS)]})
    found = [*profiles(PROFILED - 1, seed=1), *profiles(1, seed=2, slower={"main:run;words:clean": 2.0})]
    found[0] = Profile("py-spy", "samples", 150.0, {**found[0].stacks, ("main:run", EVIL): 900})
    record_profiles(made, "words", [*[None] * (NIGHTS - PROFILED), *found])
    assert made.ask("report", "--out", made.folder / "site").exit_code == 0
    return made


@pytest.fixture
def site(history: History) -> Path:
    return history.folder / "site"


def one_page(site: Path, kind: str, beginning: str) -> Path:
    (found,) = (site / kind).glob(f"{beginning}-*.html")
    return found


def test_only_the_runs_that_have_a_profile_link_to_it(site: Path) -> None:
    page = one_page(site, "entries", "words").read_text()
    links = re.findall(r'href="\.\./profiles/(words-\w+\.html#run=\w+)"', page)
    assert len(links) == PROFILED
    assert (site / "profiles" / links[0].split("#")[0]).is_file()
    assert "profiles/" not in one_page(site, "entries", "bare").read_text()
    assert [path.name.split("-")[0] for path in (site / "profiles").iterdir()] == ["words"]
    assert EVIL not in one_page(site, "profiles", "words").read_text()


def test_a_dashboard_without_profiles_has_none_of_their_programs(tmp_path: Path) -> None:
    history = History(tmp_path)
    history.nights({("bare", "time_s"): [1.0, 1.1, 1.0]})
    assert history.ask("report", "--out", tmp_path / "site").exit_code == 0
    names = [path.name for path in (tmp_path / "site").rglob("*")]
    assert not [name for name in names if "flame" in name.lower() or "profile" in name]


def test_a_profile_that_comes_later_is_added_and_an_update_is_byte_for_byte_a_new_site(tmp_path: Path) -> None:
    history, site, fresh = History(tmp_path), tmp_path / "site", tmp_path / "fresh"
    history.nights({("words", "time_s"): [1.0, 1.1, 1.0]})
    assert history.ask("report", "--out", site).exit_code == 0
    record_profiles(history, "words", profiles(1, seed=1))
    for folder in (site, fresh):
        assert history.ask("report", "--out", folder).exit_code == 0
    assert _contents(site) == _contents(fresh)
    assert (site / "assets" / "flameGraph.LICENSE.txt").is_file()
    assert "(nothing changed)" in history.ask("report", "--out", site).output


def _contents(site: Path) -> dict[str, bytes]:
    return {path.relative_to(site).as_posix(): path.read_bytes() for path in site.rglob("*") if path.is_file()}


def test_the_data_of_a_page_has_every_sample_and_stays_small() -> None:
    stacks = {
        tuple(f"module{number % 50}:function{number + depth}" for depth in range(40)): 3 for number in range(9000)
    }
    found: dict[str, Any] = json.loads(data_of(Profile("py-spy", "samples", 60.0, stacks)))
    assert sum(found["own"]) == found["samples"] == 27_000
    assert OTHER in found["frames"]
    assert len(data_of(Profile("py-spy", "samples", 60.0, stacks))) < 400_000
    assert all(parent <= number for number, parent in enumerate(found["parent"]))


@pytest.mark.slow
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("name", ["desk", "phone"])
def test_the_flame_graph_shows_what_was_added_in_red_and_finds_functions(
    open_page: Any, site: Path, name: str, scheme: str
) -> None:
    from playwright.sync_api import expect
    from real_browser import DESK, PHONE, assert_accessible

    size = {"desk": DESK, "phone": PHONE}[name]
    page = open_page(
        one_page(site, "entries", "words").relative_to(site).as_posix(), color_scheme=scheme, viewport=size
    )
    page.get_by_role("link", name="profile", exact=True).first.click()
    frames = page.locator("#flame .frame")
    expect(frames.first).to_be_visible()
    alone = frames.count()
    page.get_by_label("Compared with").select_option(index=2)
    expect(page.locator("#said")).to_contain_text("before")
    assert frames.count() >= alone - 1
    assert is_red(colour(page, "words:clean"))
    assert not is_red(colour(page, "json:dump"))
    page.get_by_label("Colours by").select_option("self")
    assert is_red(colour(page, "words:clean"))
    assert not is_red(colour(page, "all"))
    first = page.locator("#functions tbody tr").first
    expect(first).to_contain_text("words:clean")
    expect(first).to_contain_text("+")
    before = colour(page, "words:clean")
    page.get_by_label("Find", exact=True).fill("clean")
    expect(page.locator("#functions tbody tr")).to_have_count(1)
    assert colour(page, "words:clean") != before
    assert_accessible(page, size)
    page.get_by_label("Find", exact=True).fill("")
    page.locator("#flame .frame[name='words:count'] rect").click()
    expect(page.locator("#flame .frame.fade").first).to_be_attached()
    page.get_by_role("button", name="Show all").click()
    page.reload()
    expect(page.get_by_label("Colours by")).to_have_value("self")


def colour(page: Any, function: str) -> tuple[int, int, int]:
    """The colour of the first frame of a function."""
    text = page.locator(f"#flame .frame[name='{function}'] rect").first.evaluate("one => getComputedStyle(one).fill")
    red, green, blue = map(int, re.findall(r"\d+", text)[:3])
    return red, green, blue


def is_red(of: tuple[int, int, int]) -> bool:
    return of[0] > of[1] + 60 and of[0] > of[2] + 60
