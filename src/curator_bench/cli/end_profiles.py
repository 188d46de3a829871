"""The profiles of the two ends of a bisect or an A/B comparison: the options, the words, and the JSON."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from curator_bench.cli import tables

if TYPE_CHECKING:
    from curator_bench.causes.profile_difference import ProfileDifference
    from curator_bench.hunting.end_profiles import ProfiledEnds, ProfileRequest

_Command = TypeVar("_Command", bound=Callable[..., Any])


def profile_options(command: _Command) -> _Command:
    """Add `--profile` and `--profile-native`."""
    for option in (
        click.option("--profile-native", is_flag=True, help="with --profile: functions of native code, too"),
        click.option(
            "--profile",
            "profilers",
            multiple=True,
            metavar="NAME",
            help="then profile both ends until functions explain the difference: py-spy, memray, … (repeatable)",
        ),
    ):
        command = option(command)
    return command


def profile_request(profilers: Sequence[str], *, native: bool, limit: float, deadline: float) -> ProfileRequest | None:
    """Return what is to be profiled, if anything. Raises BenchError for a profiler that is not installed."""
    from curator_bench.hunting.end_profiles import ProfileRequest
    from curator_bench.options.settings import profiler_names
    from curator_bench.runner.hooks import check_profilers

    names = profiler_names(profilers)
    check_profilers(tuple(name for name in names if ":" not in name), Path())  # others are loaded in pytest's folder
    return ProfileRequest(names, native, limit, deadline) if names else None


def print_difference(found: ProfileDifference) -> None:
    """Print the functions that explain the difference, and a table of all that changed."""
    from curator_bench.causes import profile_wording

    tables.say(tables.printable(profile_wording.head(found)))
    for line in profile_wording.conclusion(found):
        tables.say(f"  {line}")
    tables.say("")
    tables.print_table(tables.columns(*profile_wording.HEADS), profile_wording.rows(found))


def print_profiled(found: ProfiledEnds) -> None:
    """Print what the profiles of the two ends tell, below the verdict."""
    tables.say("")
    tables.say(tables.printable(f"{_title(found)}: {found.ended}"))
    for line in found.problem.splitlines():
        tables.say(tables.printable(f"  {line}"))
    for one in found.differences:
        print_difference(one)
    if found.differences:
        tables.say(tables.printable(f"`{_again(found)}` prints this again"))


def lines_for_comment(found: ProfiledEnds) -> Iterator[str]:
    """Yield what the profiles tell, without tables."""
    from curator_bench.causes import profile_wording

    yield f"{_title(found)}: {found.ended}"
    for one in found.differences:
        yield profile_wording.head(one)
        yield from profile_wording.conclusion(one)


def document(found: ProfiledEnds) -> dict[str, Any]:
    """Return the profiles for JSON."""
    from curator_bench.causes import profile_wording

    return {
        "entry": found.entry,
        "sides": list(found.names),
        "sessions": list(found.sessions),
        "rounds": found.rounds,
        "ended": None if found.ended is None else found.ended.name.lower(),
        "problem": found.problem or None,
        "functions": [profile_wording.document(one) for one in found.differences],
    }


def _title(found: ProfiledEnds) -> str:
    first, second = found.names
    return f"Profiles of {found.entry}, {first} → {second}, {tables.how_many(found.rounds, 'round')}"


def _again(found: ProfiledEnds) -> str:
    name = found.entry.partition("::")[2] or found.entry
    return shlex.join(["curator-bench", "why", name, *found.sessions])
