"""The `curator-bench` command: one module per subcommand, each imported when it is asked for."""

from __future__ import annotations

import importlib
import keyword
import sys

import click

from curator_bench import __version__
from curator_bench.errors import BenchError

_SUBCOMMANDS = {
    "accept": "close a regression: the level since then is the new one",
    "ab": "compare environments: interpreters, packages, variables, matrices",
    "bisect": "find the commit that made a benchmark slower",
    "bisect-step": "one commit of `git bisect run`, told by its exit code",
    "command": "print the command line of one entry",
    "compare": "compare two sessions, commits, branches or databases",
    "export": "write all recorded runs as JSON lines, CSV or Parquet",
    "history": "print what was measured of an entry, run by run",
    "import": "take in runs that were recorded elsewhere",
    "init": "write a first matrix, script and conftest into a folder",
    "matrix": "print the entries of matrix files, or their mistakes",
    "merge": "put databases together",
    "paths": "print the directories that matrices name, here and in a container",
    "pivot": "print a metric of a session by the values of its axes",
    "prune": "remove old runs",
    "resend": "deliver what sinks could not deliver",
    "regressions": "print where metrics shifted, and with which commits",
    "report": "write the history as a dashboard, or a session as Markdown, JSON or JUnit XML",
    "run": "run matrices with the options of the older runners",
    "sessions": "print the recorded sessions",
    "show": "print one session and all it ran",
}


class _Lazy(click.Group):
    """Knows its subcommands by name; `curator-bench matrix` imports no more than it needs."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(_SUBCOMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in _SUBCOMMANDS:
            return None
        module = f"{cmd_name}_" if keyword.iskeyword(cmd_name) else cmd_name.replace("-", "_")
        found: click.Command = importlib.import_module(f"curator_bench.cli.{module}").command
        return found

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(_SUBCOMMANDS.items()))


@click.group(cls=_Lazy, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="curator-bench")
def group() -> None:
    """Benchmarks as pytest test cases. To run them: `pytest FILE_OR_FOLDER --benchmark`."""


def main() -> None:
    """The console script: what the user can put right is one message, not a traceback."""
    try:
        group()
    except BenchError as error:
        click.echo(str(error), err=True)
        sys.exit(1)
