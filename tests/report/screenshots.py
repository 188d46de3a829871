"""Takes the pictures of docs/dashboard.md anew: python tests/report/screenshots.py. No test; it needs Chromium.

They show two years of CPython, medians of pyperformance on one x86-64 machine with two builds, from
https://github.com/facebookexperimental/free-threading-benchmarking.
"""

from __future__ import annotations

import gzip
import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from playwright.sync_api import Browser, FloatRect, Page, ViewportSize
from real_browser import chromium

from curator_bench.report.site.links import slug

TOP = Path(__file__).parents[2]
IMAGES = TOP / "docs" / "images"
HISTORIES = TOP / "benchmarks" / "statistics" / "real_histories.json.gz"
DESK, PHONE = ViewportSize(width=1280, height=900), ViewportSize(width=390, height=700)
MACHINE, METRIC, ENTRY, TREE = "vultr-x86_64", "time_s", "float", "async_tree"


def lines() -> Iterator[dict[str, Any]]:
    """Yield what the machine measured, as lines to import. The builds are values of an axis, as are kinds of work."""
    for one in json.loads(gzip.decompress(HISTORIES.read_bytes())):
        if one["machine"] == MACHINE:
            _, is_tree, work = one["benchmark"].partition(f"{TREE}_")
            axes = {"work": work, "build": one["build"]} if is_tree else {"build": one["build"]}
            name = TREE if is_tree else one["benchmark"]
            for time, commit, value in zip(one["times"], one["commits"], one["values"], strict=True):
                yield {
                    **axes,
                    "name": f"{name}[{'-'.join(axes.values())}]",
                    "path": "pyperformance",
                    "metric": METRIC,
                    "value": value,
                    "time": time,
                    "commit": commit,
                    "branch": "main",
                    "machine": MACHINE,
                    "session": f"{time[:10]}_{time[11:13]}{time[14:16]}",
                }


def make_site(folder: Path) -> Path:
    """Make the demonstration site in this folder."""
    command = Path(sys.executable).with_name("curator-bench")
    (folder / "cpython.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines()))
    for words in (["import", "cpython.jsonl", "--db", "benchmark.db"], ["report", "--out", "site"]):
        title = ["--title", "CPython, every night"] if words[0] == "report" else []
        subprocess.run([command, *words, *title], cwd=folder, check=True)
    return folder / "site"


TRAINING = """
import json, sys, time
from pathlib import Path
model, out = sys.argv[1], Path(sys.argv[-1])
weights = bytearray(400_000_000 if model == "large" else 40_000_000)
for step in range(30 if model == "small" else 100_000):
    print(f"\x1b[2mstep {step:5}\x1b[0m  loss {9 / (step + 3):.4f}  {1_210 + step % 7} tokens/s", flush=True)
    time.sleep(0.1)
out.joinpath("params.json").write_text("{}")
out.joinpath("metrics.json").write_text(json.dumps({"tokens_per_s": 1_210}))
"""
RUNNING = """
ray: false
entries:
  - {name: training, script: train.py, args: "{model}", matrix: {model: [small, medium, large]}, timeout_s: 600}
"""


def main() -> None:
    with tempfile.TemporaryDirectory() as folder, chromium() as browser:
        take_all(browser, make_site(Path(folder)))
        take_running(browser, Path(folder))


def take_running(browser: Browser, folder: Path) -> None:
    """Take pictures of a session that runs, in this folder with a history."""
    programs = Path(sys.executable).parent
    (folder / "matrix.yaml").write_text(RUNNING)
    (folder / "train.py").write_text(TRAINING)
    words = ["--benchmark", "--bench-session", "nightly_2026-05-02", "-n2", "-q"]
    session = subprocess.Popen([programs / "pytest", "matrix.yaml", *words], cwd=folder)
    server = subprocess.Popen([programs / "curator-bench", "serve"], cwd=folder, stdout=subprocess.PIPE, text=True)
    try:
        assert server.stdout
        address = server.stdout.readline().split()[0]
        themes: dict[str, dict[str, Any]] = {"": {}, "-dark": {"color_scheme": "dark"}}
        for name, how in themes.items():
            with browser.new_context(viewport=DESK, **how) as context:
                page = context.new_page()
                page.goto(f"{address}now.html")
                page.get_by_text("1 of 3 done, 2 running").wait_for(timeout=60_000)
                page.wait_for_timeout(3000)  # memory was measured
                page.screenshot(path=IMAGES / f"dashboard-running{name}.png", clip=_upper(420))
                page.get_by_role("link", name="training[large]").click()
                page.wait_for_timeout(2000)
                page.screenshot(path=IMAGES / f"dashboard-log{name}.png", clip=_upper(640))
    finally:
        for process in (session, server):
            process.terminate()
            process.wait()


def _upper(height: int) -> FloatRect:
    return FloatRect(x=0, y=0, width=DESK["width"], height=height)


def take_all(browser: Browser, site: Path) -> None:
    (entry,) = (site / "entries").glob(f"{ENTRY}-gil-*.html")
    (other,) = (site / "entries").glob(f"{ENTRY}-nogil-*.html")
    compared = sorted((site / "data" / "compared").glob("*/2026-04-30-*.js"))
    chart = f"#metric={METRIC}"
    themes: dict[str, dict[str, Any]] = {"": {}, "-dark": {"color_scheme": "dark"}}
    for name, how in themes.items():
        _take(browser, f"dashboard-overview{name}", site / "index.html", viewport=DESK, **how)
        _take(browser, f"dashboard-map{name}", site / "index.html", "#heat", viewport=DESK, **how)
        _take(browser, f"dashboard-entry{name}", entry, chart, hold=True, viewport=DESK, **how)
        _take(browser, f"dashboard-lines{name}", entry, f"{chart}&lines={other.stem}~~", viewport=DESK, **how)
        pair = f"#a={compared[0].parent.name}&b={compared[0].stem}" if compared else ""
        grid = f"#entry={slug(TREE, 'pyperformance')}&{pair.removeprefix('#')}"
        _take(browser, f"dashboard-axes{name}", site / "axes.html", grid, viewport=DESK, **how)
        _take(browser, f"dashboard-compare{name}", site / "compare.html", pair, viewport=DESK, **how)
    _take(browser, "dashboard-phone", entry, chart, viewport=PHONE)


def _take(browser: Browser, name: str, page: Path, place: str = "", *, hold: bool = False, **how: Any) -> None:
    context = browser.new_context(**how)
    opened = context.new_page()
    opened.goto(page.as_uri() + place)
    opened.wait_for_timeout(1500)  # smooth scrolling comes to rest
    if hold:
        _hold_the_step(opened)
    opened.screenshot(path=IMAGES / f"{name}.png")
    context.close()


def _hold_the_step(page: Page) -> None:
    """Hold the run in which the newest regression of the chart began."""
    page.locator(f".chart[data-metric={METRIC}] .plot").focus()
    page.keyboard.press("End")
    for _ in range(400):
        page.keyboard.press("ArrowLeft")
        if "regression" in page.locator(".tip").first.inner_text():
            break
    page.keyboard.press("Enter")
    page.wait_for_timeout(300)


if __name__ == "__main__":
    main()
