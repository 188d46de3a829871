"""pytest-html, pytest-sugar, and all plugins together: what people see, and what a plain `pytest` does."""

from __future__ import annotations

import html
import json
import os
import pty
import re
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from other_plugins.conftest import Repository

PLUGINS = ("randomly", "rerunfailures", "repeat", "html", "pytest_cov", "sugar", "asyncio", "timeout", "xdist")


def html_tests(repository: Repository) -> dict[str, list[dict[str, Any]]]:
    """The tests in the report of pytest-html, by node id."""
    (blob,) = re.findall(r'data-jsonblob="([^"]*)"', (repository.folder / "report.html").read_text())
    found: dict[str, list[dict[str, Any]]] = json.loads(html.unescape(blob))["tests"]
    return found


@pytest.mark.parametrize("workers", [(), ("-n", "2")], ids=["here", "workers"])
def test_the_html_report_shows_verdicts_and_metrics(repository: Repository, workers: tuple[str, ...]) -> None:
    some = ("-k", "plain or crashes or slow or sorting or test_one")
    repository.measure("--html", "report.html", *workers, *some, expect=1)
    logs = {name.partition("::")[2]: tests[-1]["log"] for name, tests in html_tests(repository).items()}
    assert re.match(r"plain: passed in .*\n.*is_success = yes\n +speed = 5\n", logs["plain"])
    assert logs["crashes"].startswith("crashes: crashed in ")
    assert logs["slow"].startswith("slow: failed in ")
    assert "1 of 1 requirements is not met" in logs["slow"]
    assert re.match(r"test_sorting\[10\]: passed in .*\n +first = 0", logs["test_sorting[10]"])
    assert "passed in" not in logs["test_one"]


def on_a_terminal(repository: Repository, *options: str) -> str:
    """What pytest writes to a terminal, without its colours."""
    words = [sys.executable, "-m", "pytest", "-pno:randomly", "--benchmark", "--bench-session", "s", *options]
    ours, theirs = pty.openpty()
    env = {**os.environ, "TERM": "xterm", "COLUMNS": "100"}
    with subprocess.Popen(words, cwd=repository.folder, env=env, stdin=theirs, stdout=theirs, stderr=theirs):
        os.close(theirs)
        said = b""
        try:
            while some := os.read(ours, 1 << 16):
                said += some
        except OSError:  # the other end is closed
            pass
        os.close(ours)
    return re.sub(r"\x1b\[[0-9;?]*m", "", said.decode())


def test_lines_of_runs_stand_between_those_of_sugar(repository: Repository) -> None:
    said = on_a_terminal(repository, "-k", "plain or axes or crashes or unit")
    lines = [line.rpartition("\r")[2] for line in said.replace("\r\n", "\n").splitlines()]
    assert "Test session starts" in said  # it is sugar
    assert [
        line for line in lines if "Running" in line and not re.fullmatch(r"(\x1b\[\w+)*    Running \S+", line)
    ] == []
    assert any(re.fullmatch(r"(\x1b\[\w+)* +❌ crashes: crashed in .*", line) for line in lines)
    assert "CRASHED benchmarks/matrix.yaml::crashes" in said
    assert re.search(r"^plain +passed ", said, re.MULTILINE)
    assert re.search(r"^crashes +crashed ", said, re.MULTILINE)


def test_no_line_of_ours_is_where_sugar_moves_the_cursor(repository: Repository) -> None:
    said = on_a_terminal(repository, "-n", "2", "-k", "plain or axes or unit")
    assert "Test session starts" in said
    assert "Running" not in said
    assert re.search(r"^plain +passed ", said, re.MULTILINE)


def test_a_plain_pytest_runs_no_entry_and_imports_nothing_for_them(repository: Repository) -> None:
    repository.write(
        "conftest.py",
        """
import sys


def pytest_unconfigure():
    ours = {name.split(".")[1] for name in sys.modules if name.startswith("curator_bench.")}
    print("rooms:", *sorted(ours & {"execution", "matrix", "store", "verdict"}), "sqlalchemy" in sys.modules)
""",
    )
    words = [sys.executable, "-m", "pytest", "--count", "2", "--reruns", "1", "-p", "no:sugar", "-n0", "tests"]
    done = subprocess.run(words, cwd=repository.folder, capture_output=True, text=True, check=True)
    assert "4 passed" in done.stdout
    assert done.stdout.splitlines()[-1] == "rooms: False"
    whole = repository.run("--reruns", "1")
    assert whole.returncode == 0, whole.stdout
    assert "6 passed, 8 deselected, 1 rerun" in whole.stdout
    assert "8 benchmarks were not run" in whole.stdout
    assert not (repository.folder / "results").exists()


@pytest.mark.parametrize("plugin", PLUGINS)
def test_each_plugin_may_be_left_out(repository: Repository, plugin: str) -> None:
    repository.measure("-p", f"no:{plugin}", "-k", "plain or sorting", "benchmarks")
    assert sorted(repository.rows("name")) == ["plain", "test_sorting[10]", "test_sorting[20]"]


def test_all_together_record_each_run_once(repository: Repository) -> None:
    options = (
        "-n",
        "2",
        "--count",
        "2",
        "--reruns",
        "1",
        "--cov",
        "library",
        "--html",
        "report.html",
        "--timeout",
        "30",
    )
    repository.measure(*options, "-p", "randomly", "-k", "plain or sorting or crashes", expect=1)
    names = sorted(repository.rows("name, verdict"))
    crashed, passed = [("crashes", "crashed")] * 4, [("plain", "passed")] * 2
    assert names == [*crashed, *passed, *[(f"test_sorting[{size}]", "passed") for size in (10, 10, 20, 20)]]
