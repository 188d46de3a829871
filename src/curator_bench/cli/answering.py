"""Commands that answer a question by their exit code: 1 is their answer, so what goes wrong must be something else."""

from __future__ import annotations

import sys
from typing import Any

import click

from curator_bench.errors import BenchError

TROUBLE = 2
"""As for what click itself refuses."""


class Answering(click.Command):
    """Ends with 2 where the question could not be answered."""

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except BenchError as error:
            click.echo(str(error), err=True)
            sys.exit(TROUBLE)
