"""`curator_bench.stage` measures what it names, and does nothing where nobody listens."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from curator_bench import stage, stages
from curator_bench.measure.named_stages import NamedStages
from curator_bench.values import Stage, StageKind


@pytest.fixture
def heard() -> Iterator[NamedStages]:
    found = NamedStages(time.monotonic())
    stages.listen(found)
    yield found
    stages.listen(None)


def by_name(found: NamedStages) -> dict[str, Stage]:
    return {stage.name: stage for stage in found.stages()}


def test_an_outer_stage_is_recorded_without_the_time_of_the_stages_in_it(heard: NamedStages) -> None:
    began = time.perf_counter()
    with stage("outer"):
        time.sleep(0.05)
        for _ in range(3):
            with stage("inner"):
                time.sleep(0.1)
    took_s = time.perf_counter() - began
    outer, inner = heard.stages()
    assert (outer.name, outer.kind, outer.count, inner.count) == ("outer", StageKind.STEP, 1, 3)
    assert (outer.executing_s or 0) >= 0.05
    assert (inner.executing_s or 0) >= 0.3
    assert (outer.executing_s or 0) + (inner.executing_s or 0) <= took_s
    assert (outer.active_s or 0) >= 0.35
    assert outer.started_s is not None
    assert inner.started_s is not None
    assert outer.started_s < inner.started_s


def test_a_stage_may_be_inside_itself_and_used_again(heard: NamedStages) -> None:
    again, began = stage("again"), time.perf_counter()
    with again, again:
        time.sleep(0.05)
    with again:
        pass
    took_s = time.perf_counter() - began
    found = by_name(heard)["again"]
    assert found.count == 3
    assert 0.05 <= (found.executing_s or 0) <= took_s  # once, though it was open twice


def test_threads_are_summed_and_their_common_time_counts_once(heard: NamedStages) -> None:
    shared, meet = stage("work"), threading.Barrier(4)

    def work() -> None:
        meet.wait()
        with shared:
            time.sleep(0.2)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    found = by_name(heard)["work"]
    assert found.count == 4
    assert (found.executing_s or 0) >= 0.8
    assert (found.active_s or 0) < (found.executing_s or 0)


def test_an_exception_passes_and_is_counted(heard: NamedStages) -> None:
    with pytest.raises(KeyError), stage("fails"):
        raise KeyError
    with stage("fails"):
        pass
    assert (by_name(heard)["fails"].count, by_name(heard)["fails"].failures) == (2, 1)


def test_functions_and_coroutines_are_decorated_and_generators_refused(heard: NamedStages) -> None:
    @stage("add")
    def add(one: int, two: int) -> int:
        """Add."""
        return one + two if one == 0 else add(one - 1, two + 1)

    @stage("nap")
    async def nap() -> str:
        await asyncio.sleep(0.05)
        return "slept"

    async def both() -> list[str]:
        return list(await asyncio.gather(nap(), nap()))

    assert (add(2, 3), add.__name__, add.__doc__) == (5, "add", "Add.")
    assert asyncio.run(both()) == ["slept", "slept"]
    assert (by_name(heard)["add"].count, by_name(heard)["nap"].count) == (3, 2)
    assert (by_name(heard)["nap"].executing_s or 0) >= 0.1
    with pytest.raises(TypeError, match="inside it"):

        @stage("rows")
        def rows() -> Iterator[int]:
            yield 1


def test_where_nobody_listens_nothing_happens_also_if_somebody_begins_to_meanwhile(tmp_path: Path) -> None:
    with stage("unheard"):
        found = NamedStages(time.monotonic())
        stages.listen(found)
    stages.listen(None)
    assert found.stages() == ()


WRITES = """
import sys
sys.path.insert(0, {source!r})
from curator_bench import stage
{code}
"""
SOURCE = str(Path(__file__).parents[1] / "src")


def lines_of(tmp_path: Path, code: str, *, status: int = 0) -> list[list[object]]:
    """What a script appends to its file."""
    file = tmp_path / "stages.jsonl"
    env = {**os.environ, stages.STAGES_FILE: str(file)}
    command = [sys.executable, "-c", WRITES.format(source=SOURCE, code=code)]
    outcome = subprocess.run(command, env=env, cwd=tmp_path, timeout=60, check=False)
    assert outcome.returncode == status
    return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []


def test_what_has_ended_is_written_when_the_script_is_killed(tmp_path: Path) -> None:
    code = "import os, signal\nwith stage('done'): pass\nwith stage('open'): os.kill(os.getpid(), signal.SIGKILL)"
    assert [line[0] for line in lines_of(tmp_path, code, status=-9)] == ["done"]


def test_a_million_stages_are_a_few_lines_that_lose_none(tmp_path: Path) -> None:
    lines = lines_of(tmp_path, "one = stage('tiny')\nfor _ in range(100_000):\n    with one: pass")
    assert len(lines) < 2000
    assert sum(int(str(line[1])) for line in lines) == 100_000


def test_stages_of_many_names_stop_at_a_limit(tmp_path: Path) -> None:
    lines = lines_of(tmp_path, "for number in range(2000):\n    with stage(f'stage {number}'): pass")
    assert len(lines) == stages.MOST_NAMES + 1


def test_forked_processes_write_their_own_stages_once(tmp_path: Path) -> None:
    code = """
import os
for _ in range(150):
    with stage("before"): pass
if os.fork() == 0:
    with stage("child"): pass
    sys.exit()
os.wait()
"""
    lines = lines_of(tmp_path, code)
    counts = {name: sum(int(str(line[1])) for line in lines if line[0] == name) for name in ("before", "child")}
    assert counts == {"before": 150, "child": 1}
    assert len({line[6] for line in lines}) == 2


@pytest.mark.parametrize("planted", ["link", "pipe", "folder"])
def test_a_file_that_cannot_be_written_does_not_stop_a_script(tmp_path: Path, planted: str) -> None:
    file = tmp_path / "stages.jsonl"
    if planted == "link":
        file.symlink_to(tmp_path / "elsewhere")
    elif planted == "pipe":
        os.mkfifo(file)
    else:
        file.mkdir()
    env = {**os.environ, stages.STAGES_FILE: str(file)}
    code = WRITES.format(source=SOURCE, code="with stage('one'): pass")
    assert subprocess.run([sys.executable, "-c", code], env=env, timeout=60, check=False).returncode == 0
    assert not (tmp_path / "elsewhere").exists()


def test_importing_it_imports_nothing_else_of_ours() -> None:
    code = f"import sys; sys.path.insert(0, {SOURCE!r}); from curator_bench import stage\n"
    code += "print(*sorted(name for name in sys.modules if name.startswith('curator_bench')))"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert found == ["curator_bench", "curator_bench.package", "curator_bench.stages"]
