"""`curator-bench report`: writes the dashboard, or one session as Markdown, JSON or JUnit XML."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import TYPE_CHECKING

import click

from curator_bench.cli import tables
from curator_bench.cli.databases import db_option, reading
from curator_bench.cli.parameters import better_option, min_effect_option, repo_option
from curator_bench.errors import BenchError, MissingExtra
from curator_bench.files.planted import open_unless_planted

if TYPE_CHECKING:
    from curator_bench.causes.judged_history import Query

_SITE = "site"


def _address(_context: click.Context, _option: click.Parameter, url: str | None) -> str | None:
    from curator_bench.report.site.links import web_address

    if url is not None and web_address(url) is None:
        raise click.BadParameter(f"found {url!r}, expected a web address (https://…)")
    return url


def _commit_address(context: click.Context, option: click.Parameter, url: str | None) -> str | None:
    if url is not None and "{commit}" not in url:
        raise click.BadParameter(f"found {url!r}, expected an address with {{commit}} in it")
    return _address(context, option, url)


title_option = click.option("--title", default="Benchmarks", show_default=True, help="heading of every page")
commit_url_option = click.option(
    "--commit-url",
    callback=_commit_address,
    help="address of a commit: https://github.com/ORG/REPO/commit/{commit}",
)


@click.command("report")
@db_option
@click.option("--out", type=click.Path(path_type=Path), help="folder for the site, or file for another format")
@click.option("--format", "form", type=click.Choice([_SITE, "markdown", "json", "junit"]), default=_SITE)
@click.option("--session", help="for other formats: name or uid of the session (default: the newest)")
@title_option
@click.option("--sessions", "last", type=click.IntRange(1), default=1000, show_default=True, help="how many get a page")
@commit_url_option
@click.option(
    "--log-url",
    callback=_address,
    help="address of the results directory (default: links to local files)",
)
@click.option("--copy-logs", is_flag=True, help="copy the last 256 KiB of each log on this machine into the site")
@better_option
@min_effect_option("changes")
@repo_option
def command(
    database: str,
    out: Path | None,
    form: str,
    session: str | None,
    title: str,
    last: int,
    commit_url: str | None,
    log_url: str | None,
    copy_logs: bool,
    better: str | None,
    min_effect: float,
    repo: Path | None,
) -> None:
    """Write the dashboard into the folder --out. It needs no server and no network: open index.html.

    With --format, write a report of one session for a pull request, a program or a CI system.
    """
    from curator_bench.causes.judged_history import Query

    query = Query(better=better, min_effect=min_effect, repo=repo)
    if form != _SITE:
        _write_text(database, form, session, query, out)
        return
    if out is None:
        more = ", or print the session: --format markdown" if session else ""
        raise click.UsageError(f"name a folder for the site: --out site{more}")
    if importlib.util.find_spec("jinja2") is None:
        raise MissingExtra("the dashboard", "report")
    from curator_bench.cli.dashboard import RecordedHistory
    from curator_bench.report.site.build import Settings, write_site
    from curator_bench.store.past_sessions import sessions

    with reading(database) as opened, opened.reading() as connection:
        history = RecordedHistory(connection, query, sessions(connection, last))
        built = write_site(out, history, Settings(title, commit_url, log_url, copy_logs))
        disturbed = history.disturbed()
    what = (
        tables.how_many(built.entries, "entry", "entries"),
        tables.how_many(built.runs, "run"),
        tables.how_many(built.sessions, "session"),
    )
    written = f"{tables.how_many(built.written, 'file')} written" if built.written else "nothing changed"
    tables.say(f"{out / 'index.html'}: {', '.join(what)} ({written})")
    for text in disturbed:
        tables.say(f"left out: {text}")


def _write_text(database: str, form: str, named: str | None, query: Query, out: Path | None) -> None:
    from curator_bench.cli.dashboard import RecordedHistory
    from curator_bench.cli.finding_changes import changes_around
    from curator_bench.cli.names import past_sessions
    from curator_bench.report.formats import SessionReport, as_text

    with reading(database) as opened, opened.reading() as connection:
        history = RecordedHistory(connection, query, past_sessions(connection, named)[-1:])
        steps = history.steps()[::-1]
        found = SessionReport(
            session=history.sessions()[-1],
            runs=history.runs_of_last_session(),
            regressions=[one for one in steps if one.state == "open"],
            improvements=[one for one in steps if one.kind == "improvement" and one.is_new],
            drifts=history.drifts(),
            series=history.series(),
            changes=changes_around(connection, history.everything(), query.repo, history.step_facts),
            left_out=[one.text for one in (*history.everything().left_out, *history.everything().disturbed)],
        )
    text = as_text(form, found)
    if out is None:
        tables.say(text, nl=False)
        return
    try:
        with open_unless_planted(out) as file:
            file.write(text.encode("utf-8", "replace"))
    except OSError as error:
        raise BenchError(f"{error.filename or out} cannot be written: {error.strerror or error}") from error
