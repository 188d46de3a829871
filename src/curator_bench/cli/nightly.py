"""`curator-bench nightly`: one night of benchmarks in a CI system."""

from __future__ import annotations

import os
import sys
from datetime import UTC, datetime
from pathlib import Path

import click

from curator_bench.cli.after_dashes import WithPytestArgs
from curator_bench.cli.exit_codes import QuestionCommand
from curator_bench.cli.publish import publish
from curator_bench.cli.record import record_at, record_option, tell


class _Command(QuestionCommand, WithPytestArgs):
    """A command whose exit code is pytest's, and 2 for its own errors."""


def _work() -> Path:
    return Path("results", f"nightly-{datetime.now(UTC):%Y%m%dT%H%M%SZ}")


def _site() -> str:
    """Return $SITE, also if it is empty, which click takes for no variable."""
    return os.environ.get("SITE", "site")


@click.command("nightly", cls=_Command)
@record_option
@click.option(
    "--site",
    default=_site,
    help="where to publish the dashboard: a folder or a URL; empty for nowhere  [$SITE; default: site]",
)
@click.option(
    "--confirm",
    envvar="CONFIRM",
    type=click.IntRange(0),
    default=2,
    show_default=True,
    help="how often to measure again, at most, before a run fails for a regression  [$CONFIRM]",
)
@click.option(
    "--work",
    envvar="WORK",
    type=click.Path(path_type=Path, file_okay=False),
    default=_work,
    help="folder for the results and the database of this night  [$WORK; default: results/nightly-TIME]",
)
@click.option(
    "--reason",
    envvar="REASON",
    default="nightly",
    show_default=True,
    help="reason of the session, which is recorded  [$REASON]",
)
def command(record: str, site: str, confirm: int, work: Path, reason: str, pytest_args: tuple[str, ...]) -> None:
    """Get the record, run benchmarks against it, add their runs, publish the dashboard.

    Arguments after -- are for pytest; without any, it runs the folder `benchmarks`. Everything is recorded and
    published also if something got worse. A night that ran nothing leaves no trace.

    The exit code is pytest's: 1 if a requirement was not met or a metric is worse than before. It is 2 if the record
    cannot be used.
    """
    from curator_bench.hunting.children import Stopped, stoppable
    from curator_bench.sharing.nightly import NOTHING_RAN, Night
    from curator_bench.sharing.site import refuse_unusable

    if site:
        refuse_unusable(site)
    night = Night(record_at(record), work, confirm, reason, pytest_args or ("benchmarks",))
    try:
        with stoppable():
            code = night.measure()
            if site and code not in NOTHING_RAN:
                publish(record, site)
    except Stopped as stopped:
        tell(f"{stopped}; what was measured is in the record, the dashboard is as it was")
        sys.exit(stopped.exit_code)
    sys.exit(code)
