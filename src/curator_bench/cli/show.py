"""`curator-bench show`: shows one session with all its runs."""

from __future__ import annotations

import dataclasses
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import click

from curator_bench.cli import stage_tables, tables
from curator_bench.cli.databases import db_option, here, reading
from curator_bench.cli.names import past_sessions
from curator_bench.cli.sessions import as_document
from curator_bench.files.codec import json_text
from curator_bench.values import Hunt, Stage, Subject
from curator_bench.words import readable

if TYPE_CHECKING:
    from curator_bench.cli.session_changes import SessionChange
    from curator_bench.store.queries import MissedRequirement, PastRun, PastSession
    from curator_bench.store.records import InvocationRecord


_BOUND_KEYS = ("metric", "bound", "limit", "actual", "met", "note")
_GATES = {"max_regression": "regression", "max_drift": "drift"}
"""The verdict of a gate that is not met."""
_HUNTS: Mapping[str, str] = {
    Hunt.BISECT: "runs of a bisect",
    Hunt.BISECT_STEP: "runs of bisect-step",
    Hunt.GIT_BISECT: "runs while a git bisect was under way",
    Hunt.AB: "runs of an A/B comparison",
    Hunt.PROFILE: "runs with a profiler",
}


@dataclass(frozen=True, slots=True)
class _Found:
    session: PastSession
    invocations: Sequence[InvocationRecord]
    subjects: Sequence[Subject]
    runs: Sequence[PastRun]
    missed: Mapping[str, Sequence[MissedRequirement]]
    changes: Sequence[SessionChange] = ()
    stages: Mapping[str, Sequence[Stage]] = field(default_factory=dict)
    """Stages by uid of the run."""


@click.command("show")
@click.argument("session", required=False)
@db_option
@click.option("--json", "as_json", is_flag=True, help="print JSON instead of tables")
def command(session: str | None, database: str, as_json: bool) -> None:
    """Print the runs of SESSION (its name or uid; by default the newest), their verdicts and their stages."""
    from curator_bench.cli.session_changes import changes_of_session
    from curator_bench.store import queries
    from curator_bench.store.dead_runs import gone_runs
    from curator_bench.store.stages import stages_of

    with reading(database) as opened, opened.reading() as connection:
        gone = gone_runs(connection, here())
        *others, chosen = past_sessions(connection, session, gone)
        missed = defaultdict(list)
        for requirement in queries.missed_requirements(connection, chosen):
            missed[requirement.run_uid].append(requirement)
        runs = queries.runs_of(connection, chosen, gone)
        found = _Found(
            chosen,
            queries.invocations_of(connection, chosen),
            queries.subjects_of(connection, chosen),
            runs,
            missed,
            changes_of_session(connection, runs, missed),
            stages_of(connection, [run.uid for run in runs]),
        )
    if as_json:
        click.echo(json_text(_document(found)), nl=False)
        return
    for line in (*_head(found), *_others(others)):
        tables.say(line)
    tables.say("")
    is_of_several = len({run.commit for run in found.runs}) > 1  # it was joined at another commit
    commit = ["COMMIT"] if is_of_several else []
    heads = tables.columns("ENTRY", "VERDICT", "STARTED (UTC)", *commit, ">DURATION", "WHY")
    rows = [_row(run, found.missed[run.uid], marks_hunt=not found.session.hunt) for run in found.runs]
    if is_of_several:
        rows = [(*row[:3], tables.commit(run.commit), *row[3:]) for run, row in zip(found.runs, rows, strict=True)]
    tables.print_table(heads, rows)
    for line in (line for change in found.changes for line in change.lines):
        tables.say(line)
    for run in found.runs:
        if stages := found.stages.get(run.uid):
            tables.say("")
            tables.say(f"stages of {_title(run)}")
            stage_tables.print_stages(stages)


def _head(found: _Found) -> Iterator[str]:
    session = found.session
    yield f"session    {session.name}  ({session.uid})"
    if session.hunt:
        yield f"hunt       {_HUNTS.get(session.hunt, session.hunt)}; no history"
    runs = f" in {session.runs} runs" if session.runs > sum(session.verdicts.values()) else ""
    yield f"verdicts   {tables.counts(session.verdicts.items()) or 'no runs'}{runs}"
    if session.results_directory:
        yield f"results    {session.results_directory}/{session.name}"
    if session.commit:
        yield f"commit     {session.commit}{' (changed)' if session.dirty else ''} {session.branch or ''}".rstrip()
    for subject in found.subjects:
        changed = " (changed)" if subject.dirty else ""
        yield f"subject    {subject.package} {subject.version or ''} {tables.commit(subject.commit)}{changed}".rstrip(
            " -"
        )
    for invocation in found.invocations:
        status = "did not end" if invocation.end is None else f"exit code {invocation.exit_status}"
        yield f"invoked    {tables.time(invocation.start)} UTC on {invocation.host or '?'}, {status}"
        yield from (f"           {said}" for said in (invocation.command_line, invocation.ci_run_url) if said)
    yield from (
        f"{what:<11}{said}" for what, said in (("reason", session.reason), ("viewer", session.viewer_url)) if said
    )

    yield from (f"{sink:<10} {url}" for sink, url in (session.sink_urls or {}).items())


def _others(others: Sequence[PastSession]) -> Iterator[str]:
    if others:
        older = ", ".join(f"{session.uid} of {tables.time(session.start)}" for session in others[-5:])
        yield f"           the newest of {len(others) + 1} with this name; others: {older}"


def _row(run: PastRun, missed: Sequence[MissedRequirement], *, marks_hunt: bool) -> tuple[str, ...]:
    reasons = [run.error] if run.error else [said(requirement) for requirement in missed]
    why = "; ".join([*reasons, *([f"no history ({run.hunt})"] if run.hunt and marks_hunt else [])])
    return _title(run), run.verdict, tables.time(run.start), tables.seconds(run.measured_s), why


def _title(run: PastRun) -> str:
    return f"{run.entry.name} (attempt {run.attempt})" if run.attempt > 1 else run.entry.name


def said(requirement: MissedRequirement) -> str:
    """Return in a few words which bound was not met, or which gate is inconclusive."""
    actual = _shown(requirement.metric, requirement.actual)
    is_share = requirement.bound in _GATES
    limit = _share(requirement.limit) if is_share else _shown(requirement.metric, requirement.limit)
    line = f"{requirement.metric} is {'missing' if actual is None else actual}"
    if requirement.is_inconclusive:
        why = f": {requirement.note}" if requirement.note else ""
        return f"{line}: inconclusive ({requirement.bound} {limit}){why}"
    word = _GATES.get(requirement.bound)
    return f"{line}, {requirement.bound} {limit}" if word is None else f"{line}: {word} ({requirement.bound} {limit})"


def _shown(metric: str, recorded: str | None) -> str | None:
    """Return a recorded value as people read it: a number in the unit of its metric."""
    try:
        number = float(recorded or "")
    except ValueError:
        return recorded
    return readable(metric, int(number) if number.is_integer() else number)


def _share(recorded: str | None) -> str | None:
    try:
        return f"{100 * float(recorded or ''):.3g} %"
    except ValueError:
        return recorded


def _document(found: _Found) -> dict[str, Any]:
    return {
        "schema_version": 1,
        **as_document(found.session),
        "invocations": [dataclasses.asdict(invocation) for invocation in found.invocations],
        "subjects": [dataclasses.asdict(subject) for subject in found.subjects],
        "runs": [_run(run, found.missed[run.uid], found.stages.get(run.uid, ())) for run in found.runs],
        "changes": [change.document for change in found.changes],
    }


def _run(run: PastRun, missed: Sequence[MissedRequirement], stages: Sequence[Stage]) -> dict[str, Any]:
    bounds = [{name: getattr(one, name) for name in _BOUND_KEYS} for one in missed]
    return {**run_document(run), "missed_requirements": bounds, "stages": list(map(dataclasses.asdict, stages))}


def run_document(run: PastRun) -> dict[str, Any]:
    """Return a run for JSON, without its metrics."""
    fields = dataclasses.asdict(run)
    del fields["metrics"]
    return {**fields.pop("entry"), **fields}
