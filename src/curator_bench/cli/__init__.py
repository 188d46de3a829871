"""The `curator-bench` command: one module per subcommand, each imported when it is asked for."""

from __future__ import annotations

import gc
import importlib
import keyword
import sys
from typing import Any

import click

from curator_bench.cli import tables
from curator_bench.errors import BenchError
from curator_bench.package import VERSION

OBJECTS_BETWEEN_SEARCHES = 200_000
"""Python looks for unused cycles after so many new objects. As often as by default, that took a quarter of the
processor time of commands that read millions of rows."""
_GROUPS = {
    "Matrices": {
        "init": "write a first matrix, script and conftest into a folder, or files for a CI system",
        "matrix": "list the entries of matrix files, or their mistakes",
        "command": "print the command line of one entry",
        "doctor": "say whether this machine is fit to measure, and for what a matrix asks",
        "paths": "print the directories that matrices name, here and in a container",
        "run": "run matrices with the options of the older runners",
    },
    "Results": {
        "sessions": "list the recorded sessions",
        "show": "print the runs of a session",
        "history": "print the recorded runs of an entry",
        "pivot": "print a metric of a session as a table over its axes",
        "report": "write the dashboard, or a session as Markdown, JSON or JUnit XML",
        "serve": "show the dashboard and the sessions that run, in a browser",
        "resend": "deliver the messages that sinks could not deliver",
    },
    "Regressions": {
        "regressions": "print which metrics changed, since when, and with which commits",
        "compare": "compare two sessions, commits, branches or databases",
        "why": "explain by its stages why an entry became slower, and what else changed",
        "calibrate": "propose limits that noise alone hardly ever exceeds, and write them into a matrix",
        "accept": "accept a regression: its level becomes the new normal",
        "bisect": "find the commit that made a benchmark slower",
        "bisect-step": "judge one commit for `git bisect run`, by exit code",
        "ab": "compare commits or environments, measured in turns",
    },
    "In CI": {
        "nightly": "run benchmarks against the record, add their runs to it, publish the dashboard",
        "watch": "look for the cause of each open regression, and keep an issue for each",
        "jobs": "divide the entries of matrices into jobs that take equally long",
        "record": "get the database that all jobs share, or add runs to it",
        "comment": "post a Markdown file as one comment on the pull request of a job",
        "publish": "put the dashboard of the record where people see it",
    },
    "The database": {
        "merge": "merge databases",
        "import": "import runs that were recorded elsewhere",
        "export": "write all recorded runs as JSON lines, CSV or Parquet",
        "prune": "remove old runs",
    },
}
_SUBCOMMANDS = [name for commands in _GROUPS.values() for name in commands]


class _Lazy(click.Group):
    """A group that imports a subcommand only when it is used, so that each one starts quickly."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return _SUBCOMMANDS

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in _SUBCOMMANDS:
            return None
        module = f"{cmd_name}_" if keyword.iskeyword(cmd_name) else cmd_name.replace("-", "_")
        found: click.Command = importlib.import_module(f"curator_bench.cli.{module}").command
        return found

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError as error:
            from difflib import get_close_matches

            if near := get_close_matches(args[0], _SUBCOMMANDS):
                raise click.UsageError(f"{error.message} Did you mean {', '.join(near)}?", ctx) from None
            raise

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except (BenchError, click.exceptions.Exit, click.Abort, click.ClickException):
            raise
        except Exception as error:
            from curator_bench.cli.databases import explanation

            if why := explanation(ctx):
                raise BenchError(why) from error
            raise

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        widest = max(map(len, _SUBCOMMANDS))
        for title, commands in _GROUPS.items():
            with formatter.section(title):
                formatter.write_dl([(name.ljust(widest), text) for name, text in commands.items()])


@click.group(cls=_Lazy, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(VERSION, prog_name="curator-bench")
def group() -> None:
    """Benchmarks as pytest test cases. To run and record them: `pytest FILE_OR_FOLDER --benchmark`."""


def main() -> None:
    """Run the console script. A mistake of the user is shown as one message, without a traceback."""
    gc.set_threshold(OBJECTS_BETWEEN_SEARCHES)
    try:
        group()
    except BenchError as error:
        tables.say(str(error), err=True)
        sys.exit(1)
