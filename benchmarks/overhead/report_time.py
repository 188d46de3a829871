"""What `curator-bench report` takes to make a site of a long history, and to bring it up to date after another
session. It also tells how soon its pages are usable in a browser.

A page is usable when what it is for is there: the overview's lists, the first chart of an entry, the table of a
comparison. Each page is opened a few times, and the median counts; the first time, with nothing in memory, is told too.
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from statistics import median

from browser import browser, usable_ms
from pytest_process import parser_with, run, write_results
from recorded_runs import add_session
from sqlalchemy import func, select

from curator_bench.store.database import database_url, open_for_reading
from curator_bench.store.tables import RUNS

REPORT = "from curator_bench.cli import main; main()"
READY = {
    "overview": "#improvements",
    "entry": ".chart .summary",
    "compare": "#compared details, #compared .card",
    "session": "#session-runs button",
}


def pages(site: Path) -> dict[str, Path]:
    """One of each kind: the entry with the most to say, the session with the most runs."""
    return {
        "overview": site / "index.html",
        "entry": max((site / "entries").glob("*.html"), key=lambda page: page.stat().st_size),
        "compare": site / "compare.html",
        "session": max((site / "sessions").glob("*.html"), key=lambda page: page.stat().st_size),
    }


def times_of(site: Path, times: int) -> dict[str, float]:
    with browser() as opened:
        taken = {
            name: [usable_ms(opened, page, READY[name]) for _ in range(times)] for name, page in pages(site).items()
        }
    return {
        **{f"{name}_usable_ms": median(took) for name, took in taken.items()},
        **{f"{name}_first_ms": took[0] for name, took in taken.items()},
    }


def main() -> None:
    parser = parser_with(__doc__)
    parser.add_argument("--database", type=Path, required=True)
    parser.add_argument("--times", type=int, default=5, help="how often each page is opened")
    options = parser.parse_args()
    folder: Path = options.scratch.resolve()
    folder.mkdir(parents=True, exist_ok=True)
    database, site = folder / "benchmark.db", folder / "site"
    shutil.copy(options.database, database)
    shutil.rmtree(site, ignore_errors=True)
    command = [sys.executable, "-c", REPORT, "report", "--db", str(database), "--out", str(site)]
    took = run(command, folder)
    opened = open_for_reading(database_url(database))
    assert opened
    with opened, opened.reading() as connection:
        runs = connection.scalar(select(func.count()).select_from(RUNS))
    add_session(database, runs or 0)
    again = run(command, folder)
    files = [file for file in site.rglob("*") if file.is_file()]
    write_results(
        options,
        {
            "runs": runs,
            "site_s": took.wall_s,
            "site_cpu_s": took.cpu_s,
            "site_memory_mb": took.peak_memory_mb,
            "night_s": again.wall_s,
            "night_cpu_s": again.cpu_s,
            "night_memory_mb": again.peak_memory_mb,
            "site_mb": sum(file.stat().st_size for file in files) / 1e6,
            "site_files": len(files),
            **times_of(site, options.times),
        },
    )
    print(took.output, again.output)


if __name__ == "__main__":
    main()
