"""A session that ran its entries on two machines: the pages that compare show what each of them measured."""

from __future__ import annotations

import random
import re
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from playwright.sync_api import expect
from real_browser import DESK, Open, address_of, assert_accessible, report

from curator_bench.store.database import database_url, open_for_writing
from curator_bench.store.recorder import Recorder
from curator_bench.store.records import Background, DefinitionRecord, InvocationRecord, RunEnd, RunStart, SessionRecord
from curator_bench.values import Verdict

pytest_plugins = ("browser_pages",)
pytestmark = pytest.mark.slow
BEGAN, NIGHTS = datetime(2026, 1, 1, tzinfo=UTC), 20
SPEEDS = {"epyc": 1.0, "grace": 4.0}
"""Seconds on each machine. `grace` runs last. `epyc` becomes slower by half in the last night."""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder, numbers = tmp_path_factory.mktemp("machines"), random.Random(5)
    with open_for_writing(database_url(folder / "benchmark.db")) as database:
        for night in range(NIGHTS):
            start = BEGAN + timedelta(days=night)
            invocation = InvocationRecord(f"{night:032x}", start, host="bench")
            recorder = Recorder(database, SessionRecord(f"night_{night:02d}", str(folder / "results")), invocation)
            for machine, speed in SPEEDS.items():
                for size in ("small", "large"):
                    name, is_slower = f"reading[{size}]", night == NIGHTS - 1 and machine == "epyc"
                    definition = DefinitionRecord(f"of {name}", name, name, {"args": [size], "axes": {"size": size}})
                    background = Background(definition)
                    run = RunStart(name, "matrix.yaml", start, definition_hash=definition.uid, machine_id=machine)
                    recorder.start_run(run, background)
                    value = speed * (1.5 if is_slower else 1.0) * numbers.lognormvariate(0, 0.005)
                    recorder.finish_run(run.uid, RunEnd(Verdict.PASSED, start, duration=1.0, metrics={"read_s": value}))
                    start += timedelta(minutes=1)
            recorder.finish_invocation(0)
    report(folder, "--out", "site")
    return folder / "site"


def test_compare_shows_each_machine_not_only_the_one_that_ran_last(open_page: Open) -> None:
    page = open_page("compare.html")
    compared = page.locator("#compared")
    for machine in SPEEDS:
        expect(compared.get_by_role("heading", name=re.compile(machine)).first).to_be_visible()
    expect(page.locator("#words")).to_contain_text("2 regression")
    expect(page.locator("#words")).to_contain_text("2 no change")


def test_the_table_of_axes_shows_the_machine_that_is_chosen(open_page: Open) -> None:
    page = open_page("axes.html")
    grid = page.get_by_role("region", name=re.compile("by its axes$")).get_by_role("table")
    expect(grid).to_contain_text(re.compile(r"[34]\.\d+ s"))
    page.locator("#machine").select_option("epyc")
    expect(page.get_by_role("status").first).to_contain_text("on epyc: 2 regression")
    expect(grid).to_contain_text(re.compile(r"1\.[45]\d* s"))
    assert "machine=epyc" in address_of(page)
    assert_accessible(page, DESK)
    page.locator("#machine").select_option("")
    expect(page.get_by_role("status").first).to_contain_text("2 no change")
    assert "machine=" not in address_of(page)
