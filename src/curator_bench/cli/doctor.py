"""`curator-bench doctor`: says whether this machine is fit to measure, and for what a matrix asks."""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import click

from curator_bench.cli.loading import datasets_option, load_files, overlay_option, repo_option
from curator_bench.cli.tables import columns, how_many, print_table, say, share
from curator_bench.doctor.conditions import Condition, State, unknown
from curator_bench.doctor.examination import examine_entries, examine_machine
from curator_bench.doctor.noise import LOAD_S, noise_condition, noises
from curator_bench.values import Matrix
from curator_bench.words import sight

_RUNS = 5
_SCHEMA_VERSION = 1
_SHOWN = ("name", "state", "found", "cost", "remedy")


@click.command("doctor")
@click.argument("files", nargs=-1, type=click.Path(path_type=Path))
@overlay_option
@datasets_option
@repo_option
@click.option(
    "--load",
    "load_s",
    type=click.FloatRange(0, 600),
    default=LOAD_S,
    show_default=True,
    help="seconds of a known load that show the noise of this machine; 0 for none",
)
@click.option("--json", "as_json", is_flag=True, help="print JSON instead of a table")
@click.pass_context
def command(
    context: click.Context,
    files: tuple[Path, ...],
    overlays: tuple[Path, ...],
    datasets: Path | None,
    curator_repo: str | None,
    load_s: float,
    as_json: bool,
) -> None:
    """Say whether this machine is fit to measure, and for what the matrix FILES ask.

    A warning says what makes measurements scatter or runs fail, what it costs, and the command that mends it. Nothing
    is changed.
    Exits with 1 if an entry asks for something that this machine does not have.
    """
    matrix = load_files(files, overlays, datasets, curator_repo) if files else Matrix()
    conditions = [*_examined(matrix)]
    if load_s:
        conditions += _noise(load_s)
    if as_json:
        click.echo(matrix.mask.hide(_json(conditions)))
    else:
        _print(conditions, matrix)
    if any(condition.state is State.MISSING for condition in conditions):
        context.exit(1)


def _examined(matrix: Matrix) -> Iterator[Condition]:
    from curator_bench.matrix.command import command_of

    yield from examine_machine([*_folders(matrix)])
    if matrix.entries:
        problems = {entry.id: command_of(entry, os.environ).problems for entry in matrix.entries}
        yield from examine_entries(matrix.entries, problems)


def _noise(load_s: float) -> list[Condition]:
    """Measure the noise. Ctrl-C ends only this step: everything else is known by then."""
    try:
        say(f"Measuring the noise of this machine for {load_s:g} s", err=True)
        return [noise_condition(noise, _visible) for noise in noises(load_s)]
    except KeyboardInterrupt:
        return [unknown("noise", "not measured: ended by Ctrl-C")]


def _folders(matrix: Matrix) -> Iterator[Path]:
    """Return the folders into which runs write, and those of the paths that matrices name."""
    yield Path.cwd()
    for file in matrix.files:
        for folder in (file.results_dir, file.artifacts_dir, *file.paths.values()):
            if folder:
                yield Path(folder).absolute()


def _visible(noise: float) -> str:
    from curator_bench.verdict.visible import visible_change

    return sight(round(noise, 3), _RUNS, round(visible_change(noise, _RUNS), 2), share)


def _print(conditions: Sequence[Condition], matrix: Matrix) -> None:
    def shown(text: str) -> str:
        return matrix.mask.hide(text)

    print_table(columns("CHECK", "STATE", "FOUND"), [(c.name, c.state, shown(c.found)) for c in conditions])
    for condition in conditions:
        if condition.cost:
            say(f"\n{condition.name}: {shown(condition.found)}")
            say(f"  {shown(condition.cost)}\n    {shown(condition.remedy)}")
    say(f"\n{_summary(conditions)}")


def _summary(conditions: Iterable[Condition]) -> str:
    counted = Counter(condition.state for condition in conditions)
    if counted[State.MISSING]:
        return f"Not fit for this matrix: {how_many(counted[State.MISSING], 'thing')} it asks for is missing here."
    if counted[State.WARNING]:
        return f"Fit to measure, with {how_many(counted[State.WARNING], 'warning')}."
    return "Fit to measure."


def _json(conditions: Iterable[Condition]) -> str:
    document = {
        "schema_version": _SCHEMA_VERSION,
        "conditions": [{name: getattr(one, name) for name in _SHOWN} for one in conditions],
    }
    return json.dumps(document, indent=2)
