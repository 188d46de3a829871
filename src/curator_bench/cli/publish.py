"""`curator-bench publish`: puts the dashboard of the record where people see it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import click

from curator_bench.cli import record as record_command
from curator_bench.cli.after_dashes import WithPytestArgs


class _Command(WithPytestArgs):
    """A command that passes words to `curator-bench report`."""

    after_dashes = "report_options"


@click.command("publish", cls=_Command)
@click.argument("record")
@click.argument("site")
def command(record: str, site: str, report_options: tuple[str, ...]) -> None:
    """Write the dashboard of RECORD into SITE: a folder, or a URL such as s3://BUCKET/site.

    RECORD is a path or a URL, as for `curator-bench record`. Words after -- are options of `curator-bench report`, such
    as --title.
    """
    with record_command.stopped_by_signals():
        publish(record, site, report_options)


def publish(record: str, site: str, report_options: Sequence[str] = ()) -> None:
    from curator_bench.sharing import site as sites

    def build(database: str, folder: Path) -> None:
        _report(["--db", database, "--out", str(folder), *report_options])

    sites.publish(record_command.record_at(record), site, build)


def _report(words: list[str]) -> None:
    from curator_bench.cli import report

    with report.command.make_context("report", words, parent=click.get_current_context()) as context:
        report.command.invoke(context)
