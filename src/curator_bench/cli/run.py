"""`curator-bench run`: translates options of the older runners into a pytest command line, prints it and runs it."""

from __future__ import annotations

import os
import shlex
import sys

import click

_PATH = click.Path()


@click.command("run", context_settings={"ignore_unknown_options": True})
@click.option("--config", "configs", multiple=True, type=_PATH, help="the matrix; further ones are laid over the first")
@click.option("--matrix", "matrix", type=_PATH, help="the matrix to run")
@click.option("--datasets", type=_PATH, help="file with the paths of datasets")
@click.option("--sink", "sinks", multiple=True, help="report to this sink")
@click.option("--session-name", help="name of the session")
@click.option("--entries", help="expression over entry names: 'foo and not bar'")
@click.option("--entries-exact", multiple=True, help="exact entry names, separated by commas")
@click.option("--list", "only_list", is_flag=True, help="list the entries and run nothing")
@click.option("--reason", help="reason for this session")
@click.option("--viewer-url", "--viewer-url-template", help="address at which results are shown")
@click.option("--strict-config-check", "strict", is_flag=True, help="a variable that is not set is an error")
@click.argument("pytest_args", nargs=-1, type=click.UNPROCESSED)
def command(configs: tuple[str, ...], matrix: str | None, pytest_args: tuple[str, ...], **options: object) -> None:
    """Run a matrix with the options of the older runners. All other arguments go to pytest as they are."""
    files = [*([matrix] if matrix else []), *configs]
    if not files:
        raise click.UsageError("name a matrix: --config FILE or --matrix FILE")
    words = ["-m", "pytest", *_translated(files, options), *pytest_args]
    click.echo(shlex.join(["python", *words]), err=True)
    sys.stderr.flush()
    os.execv(sys.executable, [sys.executable, "-P", *words])  # -P: as `pytest`, not from the working folder


def _translated(files: list[str], options: dict[str, object]) -> list[str]:
    """Return the equivalent pytest arguments."""
    first, *overlays = files
    words = [first]
    words += [f"--bench-matrix={overlay}" for overlay in overlays]
    for sink in _texts(options["sinks"]):
        words += ["--bench-sink", sink]
    for names in _texts(options["entries_exact"]):
        words += ["--bench-entries", names]
    for option, name in _SAME_MEANING.items():
        if options[name]:
            words += [option, str(options[name])]
    words += ["--bench-strict"] if options["strict"] else []
    return [*words, "--collect-only", "-q"] if options["only_list"] else [*words, "--benchmark"]


def _texts(value: object) -> tuple[str, ...]:
    return value if isinstance(value, tuple) else ()


_SAME_MEANING = {
    "--bench-datasets": "datasets",
    "--bench-session": "session_name",
    "-k": "entries",
    "--bench-reason": "reason",
    "--bench-viewer-url": "viewer_url",
}
