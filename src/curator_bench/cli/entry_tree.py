"""The entries of matrices as a tree, with counts, and their verdicts in a session."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from itertools import groupby
from math import prod
from pathlib import Path

from curator_bench.cli import tables
from curator_bench.files.json_files import read_object
from curator_bench.matrix import Definitions
from curator_bench.report.session_runs import RESULTS, read_run, why_broken
from curator_bench.values import Entry, Matrix, RunRecord, Verdict

Mark = Callable[[Entry], str | None]
"""A function that returns the verdict of an entry, CHANGED or BROKEN, or None if it has not run."""
CHANGED, BROKEN = "changed", "broken"
_PASSED, _OTHER, _AGAIN = "✓", "✗", "↻"
_MOST_CHANGES = 20


def newest_session(results: Path, matrix: Matrix) -> Path | None:
    """Return the session folder in which an entry of this matrix began last, without bisects and A/B comparisons."""
    from curator_bench.runner.joining import FILE_NAME, has_runs_for

    names = {entry.folder[0] for entry in matrix.entries}
    folders = [folder for folder in results.iterdir() if folder.is_dir()] if results.is_dir() else []
    sessions = [folder for folder in folders if has_runs_for("", read_object(folder / FILE_NAME))]
    begun = [
        (folder.stat().st_mtime, session)
        for session in sessions
        for name in names
        if (folder := session / name).is_dir()
    ]
    return max(begun)[1] if begun else None


def marks_of(session_dir: Path | None) -> Mark:
    """Return the marks of entries from a session's folder."""

    known: dict[str, str | None] = {}
    definitions = Definitions()

    def mark(entry: Entry) -> str | None:
        if entry.id not in known:
            known[entry.id] = _came_of(session_dir, entry, definitions) if session_dir else None
        return known[entry.id]

    return mark


def _came_of(session_dir: Path, entry: Entry, definitions: Definitions) -> str | None:
    run = _run_of(session_dir, entry)
    if not run:
        return BROKEN if why_broken(session_dir.joinpath(*entry.folder, RESULTS)) else None
    return CHANGED if _why_again(entry, run, definitions) else str(run.verdict)


def _why_again(entry: Entry, run: RunRecord, definitions: Definitions) -> str | None:
    """Return why --bench-resume would run the entry again."""
    from curator_bench.runner.resume_rules import KEPT, why_again

    return why_again(entry, run, KEPT["finished"], definitions.hash_of(entry))


def _run_of(session_dir: Path, entry: Entry) -> RunRecord | None:
    run = read_run(session_dir.joinpath(*entry.folder, RESULTS))
    return run if run is not None and run.matrix == entry.file.file else None


def changes(matrix: Matrix, session_dir: Path, mark: Mark) -> Iterator[str]:
    """Yield a line for each entry that was changed since it ran. --bench-resume runs these again."""
    changed, definitions = [entry for entry in matrix.entries if mark(entry) == CHANGED], Definitions()
    for entry in changed[:_MOST_CHANGES]:
        if (run := _run_of(session_dir, entry)) is not None:
            yield f"  {entry.id} ({run.verdict}): {_why_again(entry, run, definitions)}"
    if len(changed) > _MOST_CHANGES:
        yield f"  … and {len(changed) - _MOST_CHANGES} more"


def draw(matrix: Matrix, mark: Mark) -> Iterator[str]:
    """Draw a line per file and entry, and below it one per axis value. Values of the last axis share a line."""
    for file, entries in groupby(matrix.entries, key=lambda entry: entry.file.file):
        in_file = list(entries)
        yield f"{file}: {_count(len(in_file))}{_done(in_file, mark)}"
        by_name: dict[str, list[Entry]] = {}
        for entry in in_file:
            by_name.setdefault(entry.name, []).append(entry)
        for number, (name, variants) in enumerate(by_name.items(), 1):
            yield from _draw_entry(name, variants, mark, is_last=number == len(by_name))


def _draw_entry(name: str, variants: Sequence[Entry], mark: Mark, *, is_last: bool) -> Iterator[str]:
    first, indent = ("└─ ", "   ") if is_last else ("├─ ", "│  ")
    if not variants[0].variant:
        yield first + _marked(name, variants[0], mark)
        return
    yield f"{first}{name}: {product(variants)}{_done(variants, mark)}"
    for line in _draw_values([(_path(entry), entry) for entry in variants], mark):
        yield indent + line


def _draw_values(entries: Sequence[tuple[tuple[str, ...], Entry]], mark: Mark) -> Iterator[str]:
    if all(len(path) <= 1 for path, _ in entries):
        yield "└─ " + "  ".join(_marked("".join(path), entry, mark) for path, entry in entries)
        return
    groups: dict[str, list[tuple[tuple[str, ...], Entry]]] = {}
    for path, entry in entries:
        groups.setdefault(path[0], []).append((path[1:], entry))
    for number, (text, below) in enumerate(groups.items(), 1):
        first, indent = ("└─ ", "   ") if number == len(groups) else ("├─ ", "│  ")
        if all(len(path) <= 1 for path, _ in below):
            leaves = "  ".join(_marked("".join(path), entry, mark) for path, entry in below)
            yield f"{first}{text}: {leaves}"
        else:
            yield f"{first}{text}"
            yield from (indent + line for line in _draw_values(below, mark))


def product(variants: Sequence[Entry]) -> str:
    """Return a text such as `12 entries = 2 models × 2 configs × 3 subsets`, and how many were excluded."""
    values: dict[str, set[str]] = {}
    for entry in variants:
        for value in entry.axes:
            if value.named:
                values.setdefault(value.axis, set()).add(value.text)
    sizes = " × ".join(tables.how_many(len(texts), axis, _plural(axis)) for axis, texts in values.items())
    left_out = prod(len(texts) for texts in values.values()) - len(variants)
    return f"{_count(len(variants))} = {sizes}" + (f", minus {left_out} excluded" if left_out > 0 else "")


def _plural(axis: str) -> str:
    return axis if axis.endswith("s") else f"{axis}s"


def _count(count: int) -> str:
    return tables.how_many(count, "entry", "entries")


def _path(entry: Entry) -> tuple[str, ...]:
    """Return the axis values. Empty and unprintable ones are quoted."""
    texts = (value.text for value in entry.axes if value.named)
    return tuple(text if text.strip() and text.isprintable() else repr(text) for text in texts)


def _marked(text: str, entry: Entry, mark: Mark) -> str:
    verdict = mark(entry)
    if verdict is None:
        return text
    if verdict == Verdict.PASSED:
        return f"{text} {_PASSED}"
    return f"{text} {_AGAIN if verdict == CHANGED else _OTHER} {verdict}"


def _done(entries: Sequence[Entry], mark: Mark) -> str:
    """Return counts of verdicts in brackets; empty if no entry has run."""
    counts = Counter(verdict for entry in entries if (verdict := mark(entry)) is not None)
    if not counts:
        return ""
    to_do = len(entries) - counts.total()
    return f" ({tables.counts([*counts.items(), *([('to do', to_do)] if to_do else [])])})"
