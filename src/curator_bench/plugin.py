"""The pytest hooks, and nothing but hooks: each is a few lines that call a room.

Every pytest run of every project that has curator-bench installed imports this module. So it imports only the standard
library, pytest, and modules that import no more than these.
"""

from __future__ import annotations

import sys
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest

from curator_bench import garbage, interrupts, newhooks
from curator_bench.collection import benchmarks
from curator_bench.collection import items as bench_items
from curator_bench.errors import BenchError
from curator_bench.options import clashes, declaration


def pytest_addoption(parser: pytest.Parser) -> None:
    try:
        declaration.add_options(parser)
    except ValueError as error:
        raise pytest.UsageError(clashes.clash_in(error) or str(error)) from None


@pytest.hookimpl(wrapper=True)
def pytest_load_initial_conftests() -> Generator[None, None, None]:
    try:
        yield
    except ValueError as error:
        if advice := clashes.clash_in(error):
            raise pytest.UsageError(advice) from None
        raise


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report() -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    report = yield
    if report.failed and (advice := clashes.clash_in_text(report.longreprtext)):
        report.longrepr = advice
    return report


def pytest_addhooks(pluginmanager: pytest.PytestPluginManager) -> None:
    pluginmanager.add_hookspecs(newhooks)


def pytest_configure(config: pytest.Config) -> None:
    from curator_bench import fixtures

    config.addinivalue_line("markers", "bench_matrix(file): run this benchmark once per entry of a matrix file")
    config.addinivalue_line(
        "markers", "ray_cluster(num_cpus=…, num_gpus=…, …): the size of the cluster that fixtures start"
    )
    config.addinivalue_line(
        "markers",
        "dask_cluster(n_workers=…, threads_per_worker=…, …): the size of the Dask cluster that fixtures start",
    )
    config.pluginmanager.register(fixtures, "curator_bench_fixtures")


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_cmdline_main(config: pytest.Config) -> Generator[None, object, object]:
    with interrupts.heeded(is_worker=hasattr(config, "workerinput")):
        found = yield
        if interrupts.was_asked() and not config.pluginmanager.hasplugin("terminalreporter"):
            sys.stderr.write("!!! KeyboardInterrupt !!!\n")  # too early for pytest to report it
        return found


@pytest.hookimpl(tryfirst=True)
def pytest_sessionstart(session: pytest.Session) -> None:
    try:
        with garbage.left_alone():
            benchmarks.load_benchmarks(session)
            if benchmarks.is_plain(session.config):
                from curator_bench.runner.plain_run import PlainRun

                session.config.pluginmanager.register(PlainRun(session.config), "curator_bench_plain_run")
                return
            if not benchmarks.needs_session(session.config):
                interrupts.give_back()
            from curator_bench.runner.hooks import begin

            begin(session.config)
        if benchmarks.needs_session(session.config):
            garbage.keep_what_is_there()
    except BenchError as error:
        raise _usage_error(error) from None


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_setupnodes() -> None:
    interrupts.block_while_workers_start()


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    node.workerinput.update(benchmarks.hand_over(node.config))


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_collection(session: pytest.Session) -> Generator[None, object, object]:
    interrupts.unblock()
    with bench_items.collecting(session.config):
        return (yield)


def pytest_collect_file(file_path: Path, parent: pytest.Collector) -> pytest.Collector | None:
    return bench_items.collect_file(file_path, parent)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    bench_items.generate_tests(metafunc)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if problems := bench_items.late_problems(config):
        raise pytest.UsageError("\n".join(problems))
    bench_items.deselect(config, items)


def pytest_collection_finish(session: pytest.Session) -> None:
    config = session.config
    if not benchmarks.has_matrix(config) or hasattr(config, "workerinput") or config.option.collectonly:
        return
    from curator_bench.runner.controller import check_scripts

    try:
        check_scripts(config, session.items)
    except BenchError as error:
        raise _usage_error(error) from None


def _usage_error(error: BenchError) -> pytest.UsageError:
    """Return what pytest prints as it is. Names of files and values of options may command a terminal."""
    from curator_bench.words import printable_lines

    return pytest.UsageError(printable_lines(str(error)))


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtestloop(session: pytest.Session) -> Generator[None, object, object]:
    if benchmarks.has_matrix(session.config):
        from curator_bench.runner.joining import note_session

        note_session(session)
    return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    if call.when == "call" and bench_items.UNJUDGED in item.stash:
        from curator_bench.runner.judging import judge_by_outcome

        judge_by_outcome(item, call, report)
    bench_items.attach_run(item, report)
    return report
