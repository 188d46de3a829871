"""Commands that run pytest: what follows `--` on their command line is pytest's, untouched."""

from __future__ import annotations

import click

_DASHES = "--"


class WithPytestArgs(click.Command):
    """Hands the words after `--` to the function as `pytest_args`."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        place = args.index(_DASHES) if _DASHES in args else len(args)
        left = super().parse_args(ctx, args[:place])
        ctx.params["pytest_args"] = tuple(args[place + 1 :])
        return left

    def collect_usage_pieces(self, ctx: click.Context) -> list[str]:
        return [*super().collect_usage_pieces(ctx), "-- PYTEST_ARGS…"]
