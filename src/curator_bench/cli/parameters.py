"""Types of option values that click does not have."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Any

import click

_DAYS = re.compile(r"(\d+) ?d(ays?)?")


class Moment(click.ParamType[datetime]):
    """A day, a time, or a number of days ago."""

    name = "DAY"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> datetime:
        if isinstance(value, datetime):
            return value
        if days := _DAYS.fullmatch(value):
            with suppress(OverflowError):
                return datetime.now(UTC) - timedelta(days=int(days[1]))
            self.fail(f"found {value!r}, which is too long ago", param, ctx)
        try:
            moment = datetime.fromisoformat(value)
        except ValueError:
            self.fail(f"found {value!r}, expected a day (2026-01-23), a time, or days (30d)", param, ctx)
        return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


class Share(click.ParamType[float]):
    """A fraction, as in a matrix: `3%` or 0.03."""

    name = "SHARE"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        if isinstance(value, float):
            return value
        number, percent, rest = str(value).partition("%")
        try:
            share = float(number) / (100 if percent else 1)
        except ValueError:
            share = math.nan
        if rest or not 0 <= share < math.inf:
            self.fail(f"found {value!r}, expected a share (3% or 0.03)", param, ctx)
        return share


def min_effect_option(what: str) -> Callable[[Any], Any]:
    """Return the option `--min-effect`. `what` names the values it limits, such as changes."""
    said = f"{what} of less than this do not count"
    return click.option("--min-effect", type=Share(), default="3%", show_default=True, help=said)


def since_option(command: Callable[..., Any]) -> Callable[..., Any]:
    said = "only what began since a day (2026-01-23) or in the last days (30d)"
    return click.option("--since", type=Moment(), help=said)(command)


def branch_option(command: Callable[..., Any]) -> Callable[..., Any]:
    return click.option("--branch", help="only runs of this branch (default: all runs)")(command)


def machine_option(command: Callable[..., Any]) -> Callable[..., Any]:
    return click.option("--machine", help="only runs on this kind of machine, by its id or name")(command)
