"""A pytest that does not end leaves the stacks of all its threads in the failure of the test that started it."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

import psutil
import pytest
import warm
from end_to_end.conftest import Project
from hung_processes import outputs_of

HANGS = """
    import time

    def sleeps_without_end():
        open("asleep", "w").close()
        time.sleep(1000)

    def test_hangs():
        sleeps_without_end()
"""


def wait_until_at_rest(processes: list[psutil.Process]) -> None:
    """Wait until they compute nothing, as what hangs: CPython may crash as it prints the stack of a running thread."""
    before: list[float] = []
    while before != (now := [sum(one.cpu_times()[:2]) for one in processes]):
        before = now
        time.sleep(0.5)


def test_the_stacks_of_the_controller_and_of_its_workers_are_shown(tmp_path: Path) -> None:
    project = Project(tmp_path)
    project.write("test_it.py", HANGS)
    project.matrix()
    process = project.start("test_it.py", "-n", "1")
    while not (tmp_path / "asleep").exists():
        assert process.poll() is None
        time.sleep(0.05)
    tree = psutil.Process(process.pid).children(recursive=True)
    wait_until_at_rest([psutil.Process(process.pid), *tree])
    with pytest.raises(TimeoutError) as hung:
        outputs_of(process, 0.01)
    text = str(hung.value)
    assert "in sleeps_without_end" in text
    assert "in loop_once" in text, "of the controller, which waits for its worker"
    assert f"(child of {process.pid})" in text
    assert not any(one.is_running() and one.status() != psutil.STATUS_ZOMBIE for one in tree)


def test_so_are_those_of_a_process_of_the_warm_server(tmp_path: Path) -> None:
    (tmp_path / "conftest.py").write_text("import time\ntime.sleep(1000)\n")
    within_s = 0.5
    text = ""
    while "conftest.py" not in text and within_s < 60:  # a busy machine may not have come that far
        with pytest.raises(TimeoutError) as hung:
            warm.run("pytest", cwd=tmp_path, env=dict(os.environ), within_s=within_s)
        text, within_s = str(hung.value), within_s * 2
    assert "most recent call first" in text
    assert 'conftest.py", line 2' in text
    assert Path(sys.executable).name in text
