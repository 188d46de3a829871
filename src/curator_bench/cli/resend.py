"""`curator-bench resend`: delivers what the sinks of a session could not deliver."""

from __future__ import annotations

import os
import socket
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click

from curator_bench.errors import BenchError
from curator_bench.files.codec import from_document
from curator_bench.masking import secrets_in

if TYPE_CHECKING:
    from curator_bench.sinks.journal import Undelivered
    from curator_bench.values import Matrix

_BY_ANOTHER = "another `curator-bench resend` is delivering it"


@click.command("resend")
@click.argument("session", type=click.Path(path_type=Path))
@click.option("--sink", "only", multiple=True, help="only this sink (repeatable)")
@click.option("--results", type=click.Path(path_type=Path), default="results", help="folder of sessions")
@click.option(
    "--matrix", "files", multiple=True, type=click.Path(path_type=Path), help="a matrix that has the sinks now"
)
@click.option("--copy-to", metavar="URL", help="where to copy what --bench-copy-to could not")
def command(session: Path, only: tuple[str, ...], results: Path, files: tuple[Path, ...], copy_to: str | None) -> None:
    """Deliver the messages that the sinks of SESSION (a folder, or a name in --results) could not deliver.

    Settings come from the matrix of the session, and secrets from the current environment variables.
    """
    from curator_bench.sinks.resending import alone, files_of

    directory = next((path for path in (session, results / session) if _is_session(path)), None)
    if directory is None:
        raise BenchError(f"no session in {session} or {results / session}; --results names the folder of sessions")
    _check_names(only)
    problems: list[str] = []
    is_any = False
    for path in files_of(directory):
        with alone(directory, path) as is_alone:  # locked, so that nobody else delivers these messages
            for one in _read(path, problems):
                try:
                    source = from_document(_Source, one.source)
                except ValueError as error:
                    problems.append(f"{path}: the invocation {one.invocation} cannot be resent: {error}")
                    continue
                if only and source.sink not in only:
                    continue
                is_any = True
                by_another = [f"{source.sink}: {_BY_ANOTHER}"]
                problems += _resend(path, one, source, files, copy_to) if is_alone else by_another
    if not is_any and not problems:
        shown = f" to {', '.join(only)}" if only else ""
        click.echo(f"{directory}: nothing is undelivered{shown}")
    if problems:
        raise BenchError("\n".join(dict.fromkeys(problems)))


@dataclass(frozen=True, slots=True)
class _Source:
    """The invocation as the journal has it: how to make the sink again, and its process."""

    sink: str
    files: tuple[str, ...]
    overlays: tuple[str, ...]
    datasets: str | None
    working_dir: str
    curator_repo: str | None
    host: str
    pid: int
    process_start: float | None
    copy_to: str = ""


def _read(path: Path, problems: list[str]) -> list[Undelivered]:
    """Read a journal; if that fails, add why to `problems`."""
    from curator_bench.sinks import journal

    try:
        return journal.read(path)
    except OSError as error:
        problems.append(f"{path} cannot be read: {error.strerror or error}")
        return []


def _is_session(directory: Path) -> bool:
    from curator_bench.runner.joining import FILE_NAME
    from curator_bench.sinks.journal import FOLDER

    return (directory / FILE_NAME).is_file() or (directory / FOLDER).is_dir()


def _check_names(sinks: Sequence[str]) -> None:
    from curator_bench.matrix.placeholders import nearest
    from curator_bench.sinks.registry import UnknownSink, check_known

    for name in sinks:
        try:
            check_known(name)
        except UnknownSink as error:
            raise BenchError(f"--sink: {error}{nearest(name, error.known)}") from None


def _resend(path: Path, left: Undelivered, source: _Source, files: tuple[Path, ...], copy_to: str | None) -> list[str]:
    """Deliver the messages of one sink. Returns the problems as text."""
    from curator_bench.runner.sinks import choose_one
    from curator_bench.sinks.child import ChildError
    from curator_bench.sinks.resending import Resending

    name = source.sink
    if _is_running(source):
        return [f"{name}: pytest (process {source.pid}) still runs this session, and delivers them itself"]
    matrix = _matrix(source, files)
    mask = matrix.mask.also(secrets_in(os.environ))
    try:
        chosen = choose_one(matrix, name, Path(source.working_dir), copy_to or _copied_to(source))
        resending = Resending(chosen, path, left, mask)
        count = resending.run()
    except Exception as error:  # whatever a sink raises, continue with the next one
        said = str(error) if isinstance(error, BenchError | ChildError) else f"{type(error).__name__}: {error}"
        return [f"{name}: not delivered: {mask.hide(said)}"]
    for line in resending.lines:
        click.echo(line)
    click.echo(f"{name}: {count} result{'' if count == 1 else 's'} and the end of the session delivered")
    if "" in resending.links:
        click.echo(f"{name}: {resending.links['']}")
    return []


def _copied_to(source: _Source) -> str:
    """Return the URL of --bench-copy-to. A password in it was not kept."""
    said = source.copy_to
    if source.sink == "copy" and "***" in said:
        raise BenchError(f"add --copy-to URL: {said} was stored without its secret")
    return said


def _matrix(source: _Source, files: tuple[Path, ...]) -> Matrix:
    from curator_bench.matrix import LoadRequest, load

    given = tuple(Path(os.path.abspath(file)) for file in files)
    request = LoadRequest(
        files=given or tuple(map(Path, source.files)),
        overlays=() if given else tuple(map(Path, source.overlays)),
        datasets_file=Path(source.datasets) if source.datasets and not given else None,
        variables=os.environ,
        working_dir=Path(source.working_dir),
        curator_repo=source.curator_repo,
    )
    return load(request)


def _is_running(source: _Source) -> bool:
    from curator_bench.measure.processes import identify

    if source.host != socket.gethostname():
        return False
    process = identify(source.pid)
    return process is not None and process.started == source.process_start
