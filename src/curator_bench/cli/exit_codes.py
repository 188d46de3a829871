"""Commands that answer a question by their exit code: 1 is an answer, so a failure needs another code."""

from __future__ import annotations

import sys
from typing import Any

import click

from curator_bench.errors import BenchError

TROUBLE = 2
"""The exit code where there is no answer; click uses the same for wrong arguments."""


class QuestionCommand(click.Command):
    """A command that ends with 2 where its question could not be answered."""

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except BenchError as error:
            click.echo(str(error), err=True)
            sys.exit(TROUBLE)
