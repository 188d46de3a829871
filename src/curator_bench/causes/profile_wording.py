"""The difference of profiles as a table, as lines of text, and as a document for JSON."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

from curator_bench.causes.profile_difference import USUAL_SHARE, Certainty, FunctionChange, ProfileDifference
from curator_bench.causes.profile_samples import Kind
from curator_bench.words import change, how_many, printable, readable_bytes, readable_seconds, visible

HEADS = ("FUNCTION", "TIME", ">BEFORE", ">AFTER", ">CHANGE", "99 % INTERVAL", ">WITH CALLS BEFORE", ">AFTER", "VERDICT")
_SAYS = {Kind.COMPUTING: "computing", Kind.WAITING: "waiting", Kind.TOTAL: "with calls"}
_MOST_CALLERS = 3


def conclusion(found: ProfileDifference) -> Iterator[str]:
    """Yield which functions explain the difference, or why none is named."""
    if found.is_shared:
        word = "slower" if found.shared > 0 else "faster"
        yield (
            f"functions that compute are {word} alike, by {change(found.shared)}: look for what they share, such as the"
            " machine, or a library"
        )
    for one in found.named:
        more = f"{_signed(one.added, found)} of the {_signed(found.after - found.before, found)}"
        yield printable(f"{one.word}: {place_of(one, found)} {change(one.change)}: {more}")
    if not found.named:
        yield f"no function is named: {_why_none(found)}"


def place_of(one: FunctionChange, found: ProfileDifference) -> str:
    """Return a function with what it does, and who calls it."""
    callers = "".join(f", called by {caller}" for caller in one.callers[:_MOST_CALLERS])
    if one.kind is Kind.TOTAL:
        return f"in what {one.function} calls{callers}"
    does = "allocating" if found.unit == "bytes" else str(one.kind)
    return f"{does} in {one.function}{callers}"


def _why_none(found: ProfileDifference) -> str:
    doubtful = found.doubtful if found.certainty is Certainty.MORE else None
    return "; ".join([*([_more(doubtful, found)] if doubtful else []), sight(found)])


def sight(found: ProfileDifference) -> str:
    """Say which change could have been seen."""
    seen = visible(found.visible, _percent)
    return f"in a function with {_percent(USUAL_SHARE)} of the run, a change of {seen} would have been found"


def _percent(share: float) -> str:
    return f"{100 * share:.0f} %"


def _more(doubtful: FunctionChange, found: ProfileDifference) -> str:
    what = printable(f"whether it is {place_of(doubtful, found)} ({change(doubtful.change)})")
    if found.more is None:
        return f"even 30 times as many samples would not tell {what}"
    more = [max(count * (found.more - 1), 1) for count in found.runs]
    profiles = how_many(max(more), "more profile")
    return f"more samples are needed: {profiles} on each side would tell {what}"


def rows(found: ProfileDifference) -> list[tuple[str, ...]]:
    """Return the rows of the table, for `HEADS`."""
    return [_row(one, found) for one in (*found.named, *found.others)]


def _row(one: FunctionChange, found: ProfileDifference) -> tuple[str, ...]:
    callers = f" < {one.callers[0]}" if one.callers and one in found.named else ""
    low, high = one.interval
    return (
        f"{one.function}{callers}",
        "" if found.unit == "bytes" and one.kind is not Kind.TOTAL else _SAYS[one.kind],
        _amount(one.before, found),
        _amount(one.after, found),
        change(one.change) if math.isfinite(one.change) else "new",
        f"{_signed(low, found)} to {_signed(high, found)}",
        *(_amount(total, found) for total in one.total),
        str(one.word),
    )


def _amount(value: float, found: ProfileDifference) -> str:
    return readable_bytes(value) if found.unit == "bytes" else readable_seconds(value)


def _signed(value: float, found: ProfileDifference) -> str:
    return f"{'-' if value < 0 else '+'}{_amount(abs(value), found)}"


def head(found: ProfileDifference) -> str:
    """Say what was compared."""
    first, second = (how_many(count, "profile") for count in found.runs)
    counted = "" if found.unit == "bytes" else f", {found.samples[0]:,} and {found.samples[1]:,} samples"
    times = f"{_amount(found.before, found)} → {_amount(found.after, found)}"
    return f"by functions ({found.profiler}): {times}, from {first} and {second}{counted}"


def document(found: ProfileDifference) -> dict[str, Any]:
    """Return the difference for JSON."""
    return {
        "profiler": found.profiler,
        "unit": found.unit,
        "profiles": list(found.runs),
        "samples": list(found.samples),
        "before": found.before,
        "after": found.after,
        "certainty": str(found.certainty),
        "shared": found.shared if found.is_shared else None,
        "named": [_function(one) for one in found.named],
        "others": [_function(one) for one in found.others],
        "smallest_visible_change": _finite(found.visible),
        "visible_in_share": USUAL_SHARE,
        "more_profiles": None if found.more is None else max(count * (found.more - 1) for count in found.runs),
        "doubtful": found.doubtful and _function(found.doubtful),
    }


def _function(one: FunctionChange) -> dict[str, Any]:
    return {
        "function": one.function,
        "time": str(one.kind),
        "callers": list(one.callers),
        "verdict": str(one.word),
        "before": one.before,
        "after": one.after,
        "total_before": one.total[0],
        "total_after": one.total[1],
        "change": _finite(one.change),
        "interval": list(one.interval),
        "smallest_visible_change": _finite(one.visible),
    }


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None
