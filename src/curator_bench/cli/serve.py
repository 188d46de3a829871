"""`curator-bench serve`: shows the dashboard and the sessions that run, to whoever started it, on this machine."""

from __future__ import annotations

import importlib.util
import signal
import webbrowser
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

import click

from curator_bench.cli import tables
from curator_bench.cli.databases import absolute, db_option, reading
from curator_bench.cli.parameters import better_option, min_effect_option, repo_option
from curator_bench.cli.report import commit_url_option, title_option
from curator_bench.errors import MissingExtra

if TYPE_CHECKING:
    from curator_bench.cli.site_worker import Task
    from curator_bench.report.server.pages import RecordedLog
    from curator_bench.store.serving import LogOfRun

_LAST_SESSIONS = 1000


@click.command("serve")
@db_option
@click.option(
    "--results",
    type=click.Path(path_type=Path, file_okay=False),
    help="results directory in which sessions may run, besides those that the database names (default: that of the"
    " ini file, or ./results)",
)
@click.option("--port", type=click.IntRange(0, 65535), default=0, help="port on 127.0.0.1 (default: any that is free)")
@click.option("--open", "is_opening", is_flag=True, help="open the address in a browser")
@title_option
@commit_url_option
@better_option
@min_effect_option("changes")
@repo_option
def command(
    database: str,
    results: Path | None,
    port: int,
    is_opening: bool,
    title: str,
    commit_url: str | None,
    better: str | None,
    min_effect: float,
    repo: Path | None,
) -> None:
    """Show the dashboard and the sessions that run, until Ctrl-C.

    Only this machine can reach it, and only with the token in the printed address. From another machine, use
    `ssh -L 8000:127.0.0.1:PORT HOST`, and open the address with localhost:8000 in place of 127.0.0.1:PORT.
    """
    if importlib.util.find_spec("jinja2") is None:
        raise MissingExtra("the dashboard", "report")
    from curator_bench.cli.site_worker import Task
    from curator_bench.cluster.temp_dirs import private_folder, remove_leftovers

    database = absolute(database)
    with reading(database):  # a mistake is said here, not on a page
        pass
    _end_at_signals()
    remove_leftovers()
    try:
        with private_folder("curator-bench serve") as folder:
            task = Task(
                database=database,
                site=str(folder / "site"),
                title=title,
                last=_LAST_SESSIONS,
                commit_url=commit_url,
                better=better,
                min_effect=min_effect,
                repo=str(repo) if repo else None,
            )
            _serve(task, folder, results, port, is_opening)
    except KeyboardInterrupt:
        tables.say("Ended.")


_SIGNALS = (signal.SIGTERM, signal.SIGHUP)


def _end_at_signals() -> None:
    """End as at Ctrl-C, so that nothing stays, unless a signal is ignored, as with nohup."""
    for number in _SIGNALS:
        if signal.getsignal(number) is signal.SIG_DFL:
            signal.signal(number, signal.default_int_handler)


def _serve(task: Task, folder: Path, results: Path | None, port: int, is_opening: bool) -> None:
    from curator_bench.cli.site_refresher import SiteRefresher
    from curator_bench.provenance.claimants import is_under_way
    from curator_bench.report.server.live_sessions import LiveSessions
    from curator_bench.report.server.pages import ServedPages
    from curator_bench.report.server.web_server import WebServer

    own = [(results or _results_here()).absolute()]
    with WebServer(port) as server, closing(SiteRefresher(task)) as refresher:
        live = LiveSessions(is_under_way, lambda: [*own, *refresher.results()])
        find_log = _log_finder(task.database)
        pages = ServedPages(Path(task.site), task.settings, refresher.building, refresher.want, live, find_log)
        server.answers = pages.answer
        tables.say(f"{server.address} (Ctrl-C ends it)")
        if is_opening:
            _open(folder, server.address)
        try:
            server.serve_forever()
        finally:
            for number in (signal.SIGINT, *_SIGNALS):
                signal.signal(number, signal.SIG_IGN)  # a second Ctrl-C must not interrupt the tidying up


def _results_here() -> Path:
    """Return the results directory of a project's first session, which the database does not name yet."""
    from curator_bench.options.rootdir import ini_of

    ini = ini_of(Path.cwd())
    said = str(ini.values.get("bench_results", ""))
    return ini.root / said if said else Path("results")


def _open(folder: Path, address: str) -> None:
    """Open a file that leads to the address: what is in the arguments of a browser, all users can read."""
    file = folder / "open.html"
    file.write_text(f'<!doctype html><meta charset="utf-8"><meta http-equiv="refresh" content="0; url={address}">')
    webbrowser.open(file.as_uri())


def _log_finder(database: str) -> Callable[[str], RecordedLog | None]:
    def find(uid: str) -> RecordedLog | None:
        from curator_bench.store.serving import log_of_run

        with reading(database) as opened, opened.reading() as connection:
            found = log_of_run(connection, uid)
        return None if found is None else _recorded(found)

    return find


def _recorded(found: LogOfRun) -> RecordedLog:
    from curator_bench.report.server.log_reader import LogPlace, log_place
    from curator_bench.report.server.pages import RecordedLog

    path, session_dir = Path(found.path or ""), Path(found.results_directory, found.session)
    place: LogPlace | None = LogPlace(path, path.parent) if found.path else None
    if found.path and path.is_relative_to(session_dir) and ".." not in path.parts:
        place = log_place(path.parents[1], session_dir)
    return RecordedLog(found.entry, found.session, place)
