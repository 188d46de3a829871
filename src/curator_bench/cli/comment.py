"""`curator-bench comment`: posts a file as one comment on the pull or merge request of a job."""

from __future__ import annotations

import os
import re
import secrets
from contextlib import suppress
from pathlib import Path

import click

from curator_bench.cli import tables
from curator_bench.errors import BenchError

_NAME = re.compile(r"\w[\w .+/-]*")
_LARGEST = 16 * 2**20


def _plain(_context: click.Context, _option: click.Parameter, name: str) -> str:
    if not _NAME.fullmatch(name) or "--" in name:
        raise click.BadParameter(f"found {name!r}, expected letters, digits, blanks and . _ + / -")
    return name


@click.command("comment")
@click.argument("file", type=click.Path(path_type=Path))
@click.option(
    "--name", default="curator-bench", show_default=True, callback=_plain, help="which of several comments it is"
)
@click.option("--number", type=click.IntRange(1), help="of the pull or merge request (default: that of the job)")
@click.option("--or-log", is_flag=True, help="if it cannot be posted, print FILE and the reason, and exit with 0")
def command(file: Path, name: str, number: int | None, or_log: bool) -> None:
    """Post the Markdown in FILE as a comment on the pull or merge request of this job, or update that comment.

    On GitHub the job needs GITHUB_TOKEN and `permissions: {pull-requests: write}`. On GitLab it needs GITLAB_TOKEN, a
    project access token with the role Reporter and the scope api. The token is sent by https only.
    """
    from curator_bench.sharing.comments import host_of, post
    from curator_bench.sharing.places import hidden

    text = hidden(_text(file))
    try:
        tables.say(post(host_of(os.environ, number), name, text), err=True)
    except BenchError as error:
        if not or_log:
            raise
        tables.say(f"not posted: {error}", err=True)
        _log(text)


def _text(file: Path) -> str:
    try:
        with file.open("rb") as opened:
            content = opened.read(_LARGEST)
    except OSError as error:
        raise BenchError(f"{file} cannot be read: {error.strerror or error}") from error
    if not content.strip():
        raise BenchError(f"{file} is empty: there is nothing to post")
    return content.decode("utf-8", "replace")


def _log(text: str) -> None:
    """Print the text to the log of the job, and to its summary on GitHub, which reads commands in a log."""
    stop = secrets.token_hex(16) if os.environ.get("GITHUB_ACTIONS") == "true" else ""
    if stop:
        click.echo(f"::stop-commands::{stop}")
    tables.say(text)
    if stop:
        click.echo(f"::{stop}::")
    if summary := os.environ.get("GITHUB_STEP_SUMMARY"):
        with suppress(OSError), Path(summary).open("a", encoding="utf-8") as opened:
            opened.write(f"{text}\n")
