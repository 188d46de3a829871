"""The profiles of an A/B comparison: of each benchmark that differs, on the first side and on the one that differs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from curator_bench.hunting.alternation import Comparison
from curator_bench.hunting.bench import Bench
from curator_bench.hunting.commit_sides import paths_among
from curator_bench.hunting.end_profiles import End, EndProfiles, ProfileRequest
from curator_bench.hunting.sides import Side
from curator_bench.values import Hunt
from curator_bench.verdict.judgement import Word

if TYPE_CHECKING:
    from curator_bench.hunting.comparing import Answer

_DIFFERENT = (Word.REGRESSION, Word.IMPROVEMENT)


def side_profiles(comparison: Comparison, answers: Sequence[Answer], request: ProfileRequest) -> list[EndProfiles]:
    """Return the profiles of each benchmark on each side where one of its metrics differs, regressions first."""
    differing = [
        (word, one.side, one.series.entry)
        for word in _DIFFERENT
        for one in answers
        if not one.is_null and one.judgement.word is word
    ]
    pairs = dict.fromkeys((side, entry) for _, side, entry in differing)
    sides = {side.name: side for side in comparison.sides}
    return [_profiles(comparison, entry, sides[side], request) for side, entry in pairs]


def _profiles(comparison: Comparison, entry: str, other: Side, request: ProfileRequest) -> EndProfiles:
    named = comparison.named(entry)
    first, second = (_end(comparison, side, named) for side in (comparison.sides[0], other))
    return EndProfiles(named, (first, second), comparison.database, request)


def _end(comparison: Comparison, side: Side, entry: str) -> End:
    return End(side.name, f"{comparison.session}-{side.name}", partial(_bench, comparison, side, entry))


def _bench(comparison: Comparison, side: Side, entry: str) -> Bench:
    results = [f"--bench-results={comparison.results}"] if comparison.results else []
    return Bench(
        entry,
        "",
        comparison.database,
        (*results, *_only(side, entry)),
        folder=side.folder,
        python=side.python,
        env=side.env,
        hunt=Hunt.AB,
    )


def _only(side: Side, entry: str) -> Iterator[str]:
    """Yield the arguments of pytest. Where a Python benchmark has a node id, that takes the place of the paths."""
    path, colons, name = entry.partition("::")
    roots = (folder for folder in (side.folder, *side.folder.parents) if (folder / path).is_file())
    root: Path | None = next(roots, None) if colons else None
    paths = set(paths_among(side.pytest_args)) if root is not None else set()
    yield from (word for word in side.pytest_args if word.partition("::")[0] not in paths)
    if root is not None:
        yield f"{root / path}::{name}"
