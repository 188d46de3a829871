"""Commands that answer a question by their exit code. As 1 is an answer, errors need another code."""

from __future__ import annotations

import sys
from typing import Any

import click

from curator_bench.cli import tables
from curator_bench.errors import BenchError

TROUBLE = 2
"""The exit code of errors. Click uses the same for wrong arguments."""


class QuestionCommand(click.Command):
    """A command that ends with 2 if its question could not be answered."""

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except BenchError as error:
            tables.say(str(error), err=True)
            sys.exit(TROUBLE)
