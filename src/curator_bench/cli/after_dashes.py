"""Commands that run pytest or another command. The arguments after `--` are passed to it as they are."""

from __future__ import annotations

import click

_DASHES = "--"


class WithPytestArgs(click.Command):
    """A command that gets the words after `--` as `pytest_args`."""

    after_dashes = "pytest_args"

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        place = args.index(_DASHES) if _DASHES in args else len(args)
        left = super().parse_args(ctx, args[:place])
        ctx.params[self.after_dashes] = tuple(args[place + 1 :])
        return left

    def collect_usage_pieces(self, ctx: click.Context) -> list[str]:
        return [*super().collect_usage_pieces(ctx), f"-- {self.after_dashes.upper()}…"]
