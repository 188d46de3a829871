"""Types of option values that click does not have."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    _Moments = click.ParamType["datetime | str"]
    _Numbers = click.ParamType[float]
else:  # the class of an older click takes no type
    _Moments = _Numbers = click.ParamType

_TIME = re.compile(r"(\d+(?:\.\d+)?) ?([smh])")
_SECONDS = {"s": 1.0, "m": 60.0, "h": 3600.0}
_DAYS = re.compile(r"(\d+) ?d(ays?)?")


class Moment(_Moments):
    """A day, a time, or a number of days ago; any other text may name a commit or a session (`cli.names`)."""

    name = "DAY"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> datetime | str:
        if isinstance(value, datetime):
            return value
        if days := _DAYS.fullmatch(value):
            with suppress(OverflowError):
                return datetime.now(UTC) - timedelta(days=int(days[1]))
            self.fail(f"found {value!r}, which is too long ago", param, ctx)
        try:
            moment = datetime.fromisoformat(value)
        except ValueError:
            return str(value)
        return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


class Share(_Numbers):
    """A fraction, as in a matrix: `3%` or 0.03. A number of 1 or more without a percent sign is taken for a mistake."""

    name = "SHARE"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        if isinstance(value, float):
            return value
        number, percent, rest = str(value).partition("%")
        try:
            share = float(number) / (100 if percent else 1)
        except ValueError:
            share = math.nan
        if rest or not 0 <= share < (math.inf if percent else 1):
            self.fail(f"found {value!r}, expected a share (3% or 0.03)", param, ctx)
        return share


class Duration(_Numbers):
    """A time in seconds, minutes or hours: `90s`, `20m`, `1.5h`. It is longer than nothing."""

    name = "TIME"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        if isinstance(value, float):
            return value
        found = _TIME.fullmatch(str(value))
        if not found or not float(found[1]):
            self.fail(f"found {value!r}, expected a time (90s, 20m or 1.5h)", param, ctx)
        return float(found[1]) * _SECONDS[found[2]]


better_option = click.option(
    "--better", type=click.Choice(["less", "more"]), help="better direction of metrics whose name does not tell"
)
branch_option = click.option("--branch", help="only runs of this branch (default: all runs)")
machine_option = click.option("--machine", help="only runs on this kind of machine, by its id or name")
repo_option = click.option(
    "--repo", type=click.Path(path_type=Path), help="checkout with the commits and tags (default: here)"
)


def min_effect_option(what: str) -> Callable[[Any], Any]:
    """Return the option `--min-effect`. `what` names the values it limits, such as changes."""
    said = f"{what} of less than this do not count"
    return click.option("--min-effect", type=Share(), default="3%", show_default=True, help=said)


def scope_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add `--branch`, `--machine` and `--since`, which mean the same in every command that has them (`store.scope`)."""
    since = "only what began since a day (2026-01-23), in the last days (30d), or since a commit or a session"
    options = (
        branch_option,
        machine_option,
        click.option("--since", type=Moment(), metavar="DAY|COMMIT", help=since),
    )
    for option in reversed(options):
        command = option(command)
    return command
