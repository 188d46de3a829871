"""`curator-bench matrix`: prints the expanded entries as a table, tree or JSON, or the mistakes."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import click

from curator_bench.cli.entry_tree import changes, draw, marks_of, newest_session
from curator_bench.cli.loading import datasets_option, load_files, overlay_option, repo_option
from curator_bench.cli.tables import say
from curator_bench.errors import BenchError
from curator_bench.values import Entry, Matrix


@click.command("matrix")
@click.argument("files", nargs=-1, required=True, type=click.Path(path_type=Path))
@overlay_option
@datasets_option
@repo_option
@click.option("--json", "as_json", is_flag=True, help="print JSON instead of a table")
@click.option("--tree", "as_tree", is_flag=True, help="print a tree of the axes, with counts and progress")
@click.option("--session", help="for --tree: progress of this session (default: the newest)")
@click.option("--results", type=click.Path(path_type=Path), help="for --tree: folder of sessions")
def command(
    files: tuple[Path, ...],
    overlays: tuple[Path, ...],
    datasets: Path | None,
    curator_repo: str | None,
    as_json: bool,
    as_tree: bool,
    session: str | None,
    results: Path | None,
) -> None:
    """Print the merged and expanded entries of FILES. If there are mistakes, print all of them and exit with 1."""
    matrix = load_files(files, overlays, datasets, curator_repo)
    if any(file.sinks for file in matrix.files):
        from curator_bench.runner import sinks

        sinks.check(matrix)
    for warning in matrix.warnings:
        click.echo(f"warning: {matrix.mask.hide(warning)}", err=True)
    if as_tree:
        _print_tree(matrix, session, results)
    else:
        click.echo(matrix.mask.hide(_json(matrix) if as_json else _table(matrix)))


def _print_tree(matrix: Matrix, session: str | None, results: Path | None) -> None:
    said = [file.results_dir for file in matrix.files if file.results_dir]
    folder = results or Path(said[0] if said else "results")
    session_dir = folder / session if session else newest_session(folder, matrix)
    if session and not (folder / session).is_dir():
        raise BenchError(f"no session {session!r} in {folder}; --results names the folder of sessions")
    if session_dir is not None:
        say(f"done in session {session_dir.name}: ✓ passed, ✗ otherwise")
    mark = marks_of(session_dir)
    for line in draw(matrix, mark):
        say(matrix.mask.hide(line))
    if session_dir is not None and (changed := list(changes(matrix, session_dir, mark))):
        say("↻ changed since, so --bench-resume runs them again:")
        for line in changed:
            say(matrix.mask.hide(line))


def _json(matrix: Matrix) -> str:
    document = {"schema_version": 1, "entries": [_entry(entry) for entry in matrix.entries]}
    return json.dumps(document, indent=2, default=str)


def _entry(entry: Entry) -> dict[str, Any]:
    fields = {field.name: getattr(entry, field.name) for field in dataclasses.fields(entry)}
    file = fields.pop("file")
    fields["axes"] = {value.axis: {"value": value.value, **value.fields} for value in entry.axes}
    fields["ray"] = dataclasses.asdict(entry.ray) if entry.ray else False
    fields["requirements"] = [_said(requirement) for requirement in entry.requirements]
    place = fields.pop("place")
    return {"id": entry.id, "matrix": file.file, "line": place.line, **fields}


def _said(requirement: Any) -> dict[str, Any]:
    """Return the keys of a requirement that differ from their defaults."""
    return {
        field.name: value
        for field in dataclasses.fields(requirement)
        if (value := getattr(requirement, field.name)) != field.default
    }


def _table(matrix: Matrix) -> str:
    rows = [("ENTRY", "MARKS", "SCRIPT", "CPUS", "GPUS", "TIMEOUT", "REQUIREMENTS"), *map(_row, matrix.entries)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
    count = len(matrix.entries)
    problems = [f"{entry.id}: cannot run: {problem}" for entry in matrix.entries for problem in entry.problems]
    return "\n".join([*lines, "", f"{count} entr{'y' if count == 1 else 'ies'}", *problems])


def _row(entry: Entry) -> tuple[str, ...]:
    ray = entry.ray
    return (
        entry.id,
        ",".join(entry.marks) or "-",
        entry.script,
        "no ray" if ray is None else _amount(ray.num_cpus),
        "-" if ray is None else _amount(ray.num_gpus),
        f"{entry.timeout_s:g} s",
        ", ".join(dict.fromkeys(requirement.metric for requirement in entry.requirements)) or "-",
    )


def _amount(amount: float | None) -> str:
    return "all" if amount is None else f"{amount:g}"
