"""`curator-bench calibrate`: proposes the limits of a matrix from its history, and writes them into its files."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from curator_bench.cli import tables
from curator_bench.cli.databases import db_option, reading
from curator_bench.cli.loading import datasets_option, load_files, repo_option
from curator_bench.cli.names import moment_of
from curator_bench.cli.parameters import scope_options
from curator_bench.errors import BenchError
from curator_bench.files.codec import json_text

if TYPE_CHECKING:
    from curator_bench.calibration.proposals import Lacking, Limit, Proposal
    from curator_bench.calibration.yaml_edits import MatrixText
    from curator_bench.values import Matrix

_MOST_SHOWN = 4


@click.command("calibrate")
@click.argument("files", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option("--metric", "metrics", multiple=True, help="also propose a limit of this metric where there is none")
@click.option("--write", is_flag=True, help="write the proposed limits into FILES; all else in them stays as it is")
@click.option("--json", "as_json", is_flag=True, help="print JSON instead of a table")
@scope_options
@datasets_option
@repo_option
@db_option
def command(
    files: tuple[Path, ...],
    metrics: tuple[str, ...],
    write: bool,
    as_json: bool,
    branch: str | None,
    machine: str | None,
    since: datetime | str | None,
    datasets: Path | None,
    curator_repo: str | None,
    database: str,
) -> None:
    """Propose `min_value`, `max_value` and `timeout_s` for the entries of FILES, from their recorded runs.

    Noise alone exceeds a proposed limit in fewer than 1 of 1,000 runs. Of the present ones, print how often noise
    exceeds them, and the smallest change that they catch. It takes 30 runs of an entry.
    """
    from curator_bench.calibration.proposals import Calibration, Scope, limits_of
    from curator_bench.calibration.yaml_edits import MatrixText

    matrix = load_files(files, (), datasets, curator_repo)
    texts = {file.file: MatrixText(Path(file.file)) for file in matrix.files}
    limits = limits_of(matrix.entries, texts, metrics)
    with reading(database) as opened, opened.reading() as connection:
        scope = Scope(branch, machine, moment_of(connection, since))
        found = Calibration(connection, _keys(matrix), scope).judged(limits)
    if as_json:
        click.echo(json_text({"schema_version": 1, "limits": [_document(one) for one in found]}), nl=False)
    else:
        _print(found)
    if write:
        for file, text in texts.items():
            _write(text, [one for one in found if one.limit.file == file], err=as_json)
    elif not as_json:
        _say_how_to_write(found)


def _keys(matrix: Matrix) -> dict[str, Any]:
    """Return the keys of the entries in the database, by id."""
    from curator_bench.options.rootdir import project_of
    from curator_bench.store.queries import EntryKey

    project = project_of([file.file for file in matrix.files], Path.cwd())
    return {entry.id: EntryKey(entry.id, project.name_of(entry.file.file), entry.name) for entry in matrix.entries}


def _print(found: Sequence[Proposal]) -> None:
    judged = [one for one in found if one.limit.known]
    if judged:
        heads = tables.columns(
            "ENTRY", "LIMIT", ">NOW", "IS", ">NOISE FAILS", ">CATCHES", ">PROPOSED", ">CATCHES", ">RUNS"
        )
        tables.print_table(heads, [_row(one) for one in judged])
    for line in _notes(found):
        tables.say(line)


def _row(one: Proposal) -> tuple[str, ...]:
    limit = one.limit
    return (
        _entries(limit),
        _named(limit),
        tables.NOTHING if limit.now is None else tables.measured(limit.metric, limit.now),
        str(one.state),
        _rate(one.chance_now),
        _change(one.catches_now),
        one.text if one.is_better else "",
        _change(one.catches) if one.is_better else "",
        _runs(limit),
    )


def _named(limit: Limit) -> str:
    return f"{limit.metric} {limit.key}".strip()


def _entries(limit: Limit) -> str:
    return _listed(limit.names)


def _rate(chance: float | None) -> str:
    """Return how often noise alone fails a run: `1 in 40`, `<1 in 1,000`, `always`."""
    if chance is None:
        return ""
    if chance < 1 / 1000:
        return "<1 in 1,000"
    return "always" if chance > 0.9 else f"1 in {round(1 / chance):,}"


def _change(fraction: float | None) -> str:
    return "" if fraction is None else tables.change(fraction)


def _runs(limit: Limit) -> str:
    """Return the numbers of runs: of one series, or of the shortest and the longest."""
    runs = sorted({one.runs for one in limit.measured})
    return f"{runs[0]:,}" if len(runs) == 1 else f"{runs[0]:,} to {runs[-1]:,}"


def _notes(found: Sequence[Proposal]) -> Iterator[str]:
    from curator_bench.calibration.proposals import State

    by_state: dict[State, list[str]] = defaultdict(list)
    for one in found:
        by_state[one.state].append(f"{_entries(one.limit)} {_named(one.limit)}")
    for state, text in (
        (
            State.EXCEEDED,
            "the present level is beyond the limit, which nothing is proposed for: mend or accept it first",
        ),
        (State.EXACT, "never changes, so its limit stays as it is"),
    ):
        if names := by_state[state]:
            yield f"{_listed(names)}: {text}"
    few = [one.limit for one in found if one.state is State.TOO_FEW]
    if alone := list(dict.fromkeys(_entries(limit) for limit in few if not limit.known)):
        yield f"{_listed(alone)}: fewer than 30 runs are recorded, or the level is new; nothing is proposed"
    for limit in few:
        if limit.known:
            lacking = _listed([f"{one.entry} ({_needed(one)})" for one in limit.lacking])
            yield f"{_entries(limit)} {_named(limit)}: nothing is proposed until all have enough runs: {lacking}"
    for one in found:
        entries = {measured.entry for measured in one.limit.measured}
        machines = {measured.machine for measured in one.limit.measured}
        if one.is_better and (len(entries) > 1 or len(machines) > 1):
            shared = [tables.how_many(len(entries), "entry", "entries")] if len(entries) > 1 else []
            shared += (
                [tables.how_many(len(machines), "kind of machine", "kinds of machines")] if len(machines) > 1 else []
            )
            yield f"{_entries(one.limit)} {_named(one.limit)}: the loosest that {' on '.join(shared)} need"
        if one.is_better and (worse := max((each.worse or 0.0 for each in one.limit.measured), key=abs)):
            yield f"{_entries(one.limit)} {_named(one.limit)}: for the present level, a regression of {_change(worse)}"


def _needed(lacking: Lacking) -> str:
    return f"{lacking.missing:,} more needed" if lacking.missing else "its level is new"


def _listed(names: Sequence[str]) -> str:
    more = f" and {len(names) - _MOST_SHOWN} more" if len(names) > _MOST_SHOWN else ""
    return ", ".join(names[:_MOST_SHOWN]) + more


def _say_how_to_write(found: Sequence[Proposal]) -> None:
    if any(one.is_better and one.limit.written for one in found):
        tables.say("To write the proposed limits into the files: --write")
    for line in by_hand(found):
        tables.say(line)


def by_hand(found: Sequence[Proposal]) -> Iterator[str]:
    """Yield what `--write` does not write: new requirements, and limits that are not written as numbers."""
    for one in found:
        if one.is_better and one.limit.written is None:
            is_new = one.limit.now is None
            place = "its requirements" if is_new else "the place its limit comes from (a variable, an axis, asv)"
            yield f"{_entries(one.limit)}: write into {place}: {_line(one)}"


def _line(one: Proposal) -> str:
    """Return the limit as a line of a matrix."""
    bound = f"{one.limit.key}: {one.text}"
    return f"- {{metric: {one.limit.metric}, {bound}}}" if one.limit.metric else bound


def _write(file: MatrixText, found: Sequence[Proposal], *, err: bool) -> None:
    """Write the numbers of one file, in one step."""
    from curator_bench.files import safe_files

    better = sorted(
        ((one.limit.written, one) for one in found if one.is_better and one.limit.written),
        key=lambda pair: pair[0].spot.start,
    )
    if better:
        text = file.replaced([(written.spot, one.text) for written, one in better])
        try:
            safe_files.write_bytes(file.path, text.encode("utf-8"), mode=file.path.stat().st_mode & 0o777)
        except OSError as error:
            raise BenchError(f"{file.path} cannot be written: {error.strerror or error}") from error
    for written, one in better:
        before = tables.NOTHING if written.text is None else written.text
        what = f"{_entries(one.limit)} {_named(one.limit)}"
        tables.say(f"{file.path.name}:{written.spot.line}: {what}: {before} → {one.text}", err=err)
    for line in by_hand(found):
        tables.say(line, err=err)


def _document(one: Proposal) -> dict[str, Any]:
    limit = one.limit
    return {
        "matrix": limit.file,
        "line": limit.written.spot.line if limit.written else None,
        "entries": limit.names,
        "metric": limit.metric or None,
        "key": limit.key,
        "now": limit.now,
        "state": str(one.state),
        "noise_fails": one.chance_now,
        "catches": one.catches_now,
        "proposed": one.proposed,
        "proposed_catches": one.catches,
        "too_few": [{"entry": lacking.entry, "missing_runs": lacking.missing} for lacking in limit.lacking],
        "measured": [
            {
                "entry": measured.entry,
                "machine": measured.machine,
                "runs": measured.runs,
                "level": measured.scatter.level if measured.scatter else None,
                "noise": measured.scatter.noise if measured.scatter else None,
                "limit": measured.scatter.limit(is_upper=limit.is_upper) if measured.scatter else None,
            }
            for measured in limit.measured
        ],
    }
