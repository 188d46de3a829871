"""`curator-bench bisect-step`: judges one commit for `git bisect run` by its exit code."""

from __future__ import annotations

import sys
import traceback
from pathlib import Path
from typing import Any

import click

from curator_bench.cli import tables
from curator_bench.cli.after_dashes import WithPytestArgs
from curator_bench.errors import BenchError

_STOP, _USAGE = 128, 4
"""As in `hunting.bisect_codes`, which is not imported before the arguments are checked."""


class _NeverBad(WithPytestArgs):
    """A command that ends errors with 128 or more, because git takes 1 for a bad commit."""

    def make_context(
        self, info_name: str | None, args: list[str], parent: click.Context | None = None, **extra: Any
    ) -> click.Context:
        try:
            return super().make_context(info_name, args, parent, **extra)
        except click.UsageError as error:
            error.show()
            sys.exit(_STOP + _USAGE)

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except click.UsageError as error:
            error.show()
            sys.exit(_STOP + _USAGE)
        except BenchError as error:
            tables.say(str(error), err=True)
        except Exception:  # an error in our code: show all of it, and let git stop
            click.echo(traceback.format_exc(), err=True)
        sys.exit(_STOP + 3)


@click.command("bisect-step", cls=_NeverBad)
@click.option(
    "--skip-broken", is_flag=True, help="skip commits whose benchmark crashes or times out; otherwise they are bad"
)
def command(skip_broken: bool, pytest_args: tuple[str, ...]) -> None:
    """Run pytest and judge the commit: `git bisect run curator-bench bisect-step -- benchmarks -k NAME`.

    The exit code is 0 for good and 1 for bad (a failed requirement or a regression). It is 125 if the commit cannot be
    judged, also because a gate is inconclusive. It is 128 or more for errors unrelated to the commit, and git stops.
    """
    from curator_bench.hunting import junit
    from curator_bench.hunting.bisect_codes import code_of
    from curator_bench.hunting.children import Stopped, pytest_environment, pytest_of, run, scratch_folder, stoppable
    from curator_bench.values import Hunt

    if not pytest_args:
        raise click.UsageError("name what to run: curator-bench bisect-step -- benchmarks -k NAME")
    try:
        with stoppable(), scratch_folder() as folder:
            file = folder / "junit.xml"
            words = [*pytest_of(sys.executable), *pytest_args, f"--junitxml={file}", "--bench-inconclusive=pass"]
            ended = run(words, env=pytest_environment(Hunt.BISECT_STEP), cwd=Path.cwd())
            code, why = code_of(junit.read(file, ended), skip_broken=skip_broken)
    except Stopped as stopped:
        code, why = stopped.exit_code, str(stopped)
    click.echo(f"curator-bench bisect-step: {code} ({_MEANING.get(code, 'stop')}: {why})", err=True)
    sys.exit(code)


_MEANING = {0: "good", 1: "bad", 125: "cannot be judged"}
