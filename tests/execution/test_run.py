"""A run from its plan to its result: attempts, what keeps it from running, what it leaves for those who look."""

from __future__ import annotations

import json
import os
import pickle
import signal
import socket
import subprocess
import sys
import threading
import time
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from curator_bench.execution import attempt
from curator_bench.execution.installing import install_command
from curator_bench.execution.run import run_entry
from curator_bench.execution.workbench import Workbench
from curator_bench.measure.gpu import machine_may_have_gpus
from curator_bench.measure.processes import Mark, busyness, find_processes
from curator_bench.provenance import host_files
from curator_bench.values import DatasetNeed, RaySettings, RunResult, Verdict

if TYPE_CHECKING:
    from execution.conftest import Desk

SOURCE = Path(__file__).parents[2] / "src"
RUNS_AND_TELLS = """
import pickle, sys
from pathlib import Path
from curator_bench.execution.run import Interrupted, run_entry
from curator_bench.execution.workbench import Workbench
plan = pickle.loads(bytes.fromhex(sys.argv[1]))
with Workbench(Path(plan.session_dir)) as bench:
    print(bench.marker, flush=True)
    try:
        result = run_entry(plan, bench)
    except Interrupted as stop:
        print("interrupted", flush=True)
        result = stop.result
print(pickle.dumps(result).hex(), *sorted({name.partition(".")[0] for name in sys.modules}))
"""


KEEPS_ITS_SCRATCH = """
import subprocess
kept = results_dir().with_name("scratch") / "kept"
kept.parent.mkdir(exist_ok=True)
kept.touch()
subprocess.run(["chattr", "+i", kept])
write({"is_success": True})
"""


def test_a_scratch_folder_that_cannot_be_removed_is_a_warning(desk: Desk) -> None:
    try:
        result = run_entry(desk.plan(KEEPS_ITS_SCRATCH, delete_scratch=True), desk.bench)
    finally:
        kept = desk.entry_dir / "scratch" / "kept"
        is_kept = kept.exists()
        subprocess.run(["chattr", "-i", kept], check=False, stderr=subprocess.DEVNULL)
    if not is_kept:
        pytest.skip("no file can be made immutable here")
    assert result.verdict is Verdict.PASSED
    assert [text for text in result.warnings if text.startswith("the scratch folder could not be removed: ")]


class Elsewhere:
    """A run in a process of its own, as a fleet has it: a plan goes there, a result comes back."""

    def __init__(self, plan: Any) -> None:
        env = {**os.environ, "PYTHONPATH": str(SOURCE)}
        self.process = subprocess.Popen(
            [sys.executable, "-c", RUNS_AND_TELLS, pickle.dumps(plan).hex()],
            env=env,
            stdout=subprocess.PIPE,
            text=True,
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # also under nohup
        )
        assert self.process.stdout
        self.mark = Mark(self.process.stdout.readline().strip())

    def outcome(self) -> tuple[RunResult, set[str], str]:
        """The result, what was imported for it, and what was said before."""
        said, _ = self.process.communicate()
        *before, last = said.splitlines()
        handed, *modules = last.split()
        return pickle.loads(bytes.fromhex(handed)), set(modules), "\n".join(before)


def test_the_same_call_runs_in_any_process_with_the_standard_library_psutil_and_ray_only(desk: Desk) -> None:
    result, modules, _ = Elsewhere(desk.plan("write({'docs': 5})")).outcome()
    assert (result.verdict, result.metrics["docs"]) == (Verdict.PASSED, 5)
    assert not modules & {"_pytest", "pytest", "yaml", "pydantic", "sqlalchemy", "numpy", "click", "rich", "slack_sdk"}


def test_a_result_says_when_and_where(desk: Desk) -> None:
    before = datetime.now(UTC)
    result = desk.run("time.sleep(0.2); write({})")
    started, ended = map(datetime.fromisoformat, (result.started_at, result.ended_at))
    assert before.timestamp() - 0.001 <= started.timestamp() < ended.timestamp() <= datetime.now(UTC).timestamp()
    assert started.tzinfo == UTC
    assert 0.2 <= result.repeats[0].exec_time_s <= result.duration_s < 30
    assert result.host == socket.gethostname()
    assert (result.ray_version, result.ray_num_cpus) == ("", None)


def test_an_attempt_after_another_has_a_folder_of_its_own(desk: Desk) -> None:
    """A dataset that appears a moment later, as on a file system that is slow to mount."""
    late = desk.folder / "late"
    code, needs = "write({'where': sys.argv[1]})", (DatasetNeed("late", "jsonl", str(late)),)
    first = desk.run(code, "{session_entry_dir}", datasets=needs)
    late.touch()
    second = desk.run(code, "{session_entry_dir}", datasets=needs, attempt=2)
    assert (first.verdict, first.attempt, second.verdict, second.attempt) == (Verdict.ERROR, 1, Verdict.PASSED, 2)
    assert second.metrics["where"] == f"{desk.entry_dir}/attempt_2"
    assert "dataset late,jsonl not found" in first.error
    desk.run("write({})")
    assert not list(desk.entry_dir.glob("attempt_*"))


def test_what_is_wrong_with_the_plan_is_an_error_at_once(desk: Desk) -> None:
    desk.run("print('of an earlier run'); write({'old': 1})")
    problems = ("matrix.yaml:3: environment variable X is not set", "another")
    result = desk.run("write({})", problems=problems)
    assert (result.verdict, result.error) == (Verdict.ERROR, "; ".join(problems))
    assert (result.log_path, result.log_tail, result.metrics) == ("", (), {})


@pytest.mark.parametrize("gpus", [0.5, 1, 8])
def test_a_cluster_with_gpus_where_there_are_none_is_an_error_before_anything_starts(
    desk: Desk, monkeypatch: pytest.MonkeyPatch, gpus: float
) -> None:
    monkeypatch.setattr("curator_bench.measure.gpu.GPU_DEVICES", (str(desk.folder / "gpu*"),))
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    result = desk.run("Path('ran').touch()", ray=RaySettings(num_gpus=gpus))
    assert result.verdict is Verdict.ERROR
    assert f"asks for {gpus:g} GPU" in result.error
    assert "this machine has none" in result.error
    assert not (desk.entry_dir / "logs" / "ray_startup.log").exists()
    assert not (desk.folder / "ran").exists()


def test_a_gpu_may_be_there_where_there_is_a_device_or_somebody_chose_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("curator_bench.measure.gpu.GPU_DEVICES", (str(tmp_path / "gpu*"),))
    monkeypatch.setattr(sys, "platform", "linux")
    assert not machine_may_have_gpus({"CUDA_VISIBLE_DEVICES": ""})
    assert machine_may_have_gpus({"CUDA_VISIBLE_DEVICES": "0"})
    (tmp_path / "gpu0").touch()
    assert machine_may_have_gpus({})


@pytest.mark.parametrize("missing", ["no_such_package", "no_such_package.sub", "json.no_such_module"])
def test_what_the_scripts_python_cannot_import_skips_the_run_and_says_so(desk: Desk, missing: str) -> None:
    result = desk.run("Path('ran').touch()", requires=("json", missing))
    assert result.verdict is Verdict.SKIPPED
    assert result.error.startswith(f"needs {missing}, which {sys.executable} cannot import")
    assert not (desk.folder / "ran").exists()


def test_a_program_that_is_missing_skips_the_run_and_says_so(desk: Desk) -> None:
    """PATH is that of the script: an entry may set it."""
    program = desk.folder / "programs" / "own_program"
    program.parent.mkdir()
    program.touch(mode=0o755)
    with_it = {"PATH": f"{program.parent}{os.pathsep}{os.environ['PATH']}"}
    result = desk.run("Path('ran').touch()", requires_programs=("sh", "own_program", "no_such_program"))
    assert result.verdict is Verdict.SKIPPED
    assert result.error == "needs own_program, no_such_program, which are not in PATH"
    assert not (desk.folder / "ran").exists()
    assert desk.run("write({})", requires_programs=("sh", "own_program"), env=with_it).verdict is Verdict.PASSED


def test_programs_beside_the_interpreter_are_found_also_where_its_environment_is_not_active(desk: Desk) -> None:
    program = Path(sys.executable).with_name("curator-bench")
    without = {"PATH": os.pathsep.join(["/usr/bin", "/bin"])}
    script = "import subprocess; subprocess.run(['curator-bench', '--version'], check=True); write({})"
    assert program.is_file()
    result = desk.run(script, requires_programs=("curator-bench",), env=without)
    assert result.verdict is Verdict.PASSED, result.error


@pytest.mark.parametrize(
    ("missing", "install"),
    [
        (("no_such_package.sub",), "no-such-package"),
        (("bs4", "magic"), "beautifulsoup4 python-magic"),
        (("nemo_curator", "no_such_package"), "'curator-bench[curator]' no-such-package"),
        (("torch", "transformers.models"), "'curator-bench[attention]'"),
        (("ray.no_such_module",), "ray"),
    ],
)
def test_what_is_to_be_installed_is_said(missing: tuple[str, ...], install: str) -> None:
    assert install_command("/my/python", missing) == f"/my/python -m pip install {install}"


def test_what_it_can_import_does_not(desk: Desk) -> None:
    noisy = desk.folder / "python"
    noisy.write_text(f'#!/bin/sh\necho "a banner of a wrapper"\nexec {sys.executable} "$@"\n')
    noisy.chmod(0o755)
    assert desk.run("write({})", python=str(noisy), requires=("json", "json.decoder")).verdict is Verdict.PASSED


def test_an_interpreter_that_cannot_be_asked_is_an_error(desk: Desk) -> None:
    result = desk.run("write({})", python="/bin/false", requires=("json",))
    assert result.verdict is Verdict.ERROR
    assert result.error.startswith("the interpreter /bin/false cannot be checked for modules")


@pytest.mark.parametrize("stubborn", [False, True])
def test_ctrl_c_stops_the_run_and_keeps_what_it_was(desk: Desk, stubborn: bool) -> None:
    code = f"""
    import signal, subprocess
    if {stubborn}:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    subprocess.Popen(["sleep", "600"], start_new_session=True)
    print("begun", flush=True)
    if "repeat_2" in sys.argv[1]:
        Path("second").touch()
        time.sleep(600)
    write({{"first": 1}})
    """
    elsewhere = Elsewhere(desk.plan(code, "{session_entry_dir}", repeat=2))
    while not (desk.folder / "second").exists():
        assert elsewhere.process.poll() is None
        time.sleep(0.02)
    began = time.monotonic()
    elsewhere.process.send_signal(signal.SIGINT)
    result, _, said = elsewhere.outcome()
    assert time.monotonic() - began < 15 * busyness()
    assert said == "interrupted"
    assert (result.verdict, result.error) == (Verdict.INTERRUPTED, "stopped from outside")
    assert len(result.repeats) == 1
    assert result.metrics["first"] == 1
    assert not find_processes(elsewhere.mark)
    assert json.loads((desk.entry_dir / "status.json").read_text())["verdict"] == "interrupted"


def test_status_tells_while_it_runs_and_when_it_has_ended(desk: Desk) -> None:
    code = """
    print("first"); print("half way", flush=True)
    while not Path("go").exists():
        time.sleep(0.02)
    write({})
    """
    seen: list[dict[str, Any]] = []

    def watch() -> None:
        deadline = time.monotonic() + 20 * busyness()
        while time.monotonic() < deadline and not (seen and seen[-1]["last_line"] == "half way"):
            time.sleep(0.05)
            if (desk.entry_dir / "status.json").exists():
                seen.append(json.loads((desk.entry_dir / "status.json").read_text()))
        (desk.folder / "go").touch()

    watcher = threading.Thread(target=watch)
    watcher.start()
    desk.run(code)
    watcher.join()
    live = seen[-1]
    assert (live["state"], live["last_line"], live["name"]) == ("running", "half way", "entry")
    assert (live["host"], live["pid"]) == (socket.gethostname(), os.getpid())
    last = json.loads((desk.entry_dir / "status.json").read_text())
    assert (last["state"], last["verdict"]) == ("ended", None)
    assert last["elapsed_s"] >= live["elapsed_s"]


def test_nothing_a_run_leaves_says_that_it_passed_before_it_is_judged(desk: Desk) -> None:
    assert desk.run("write({'is_success': True})", repeat=2).verdict is Verdict.PASSED
    files = [path for path in desk.entry_dir.rglob("*") if path.is_file()]
    assert not [path for path in files if b"passed" in path.read_bytes()]


def test_the_environment_is_recorded_once_before_the_first_run(desk: Desk) -> None:
    env_dir = desk.session_dir / "env"
    desk.run("write({'there': len(list(Path(sys.argv[1]).glob('*.json')))})", str(env_dir), subjects=("pytest",))
    file = next(env_dir.glob("*.json"))
    first = json.loads(file.read_text())
    assert first["host"] == socket.gethostname()
    assert first["subjects"]["pytest"]["version"] == pytest.__version__
    assert "pytest==" in (env_dir / "packages.txt").read_text().lower()
    file.write_text("as it was")
    desk.run("write({})", subjects=("pytest",))
    assert file.read_text() == "as it was"


def test_subjects_of_a_second_matrix_join_those_of_the_first(desk: Desk) -> None:
    plan = desk.plan("write({})", subjects=("pytest",))
    host_files.ensure(plan)
    host_files.ensure(replace(plan, subjects=("psutil",)))
    facts = json.loads(next((desk.session_dir / "env").glob("*.json")).read_text())
    assert set(facts["subjects"]) == {"pytest", "psutil"}


def test_a_capture_that_was_interrupted_is_made_again(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    plan = desk.plan("write({})")

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(host_files, "write", interrupt)
        with pytest.raises(KeyboardInterrupt):
            host_files.ensure(plan)
    host_files.ensure(plan)
    assert list((desk.session_dir / "env").glob("*.json"))


def test_a_gpu_driver_that_hangs_is_waited_for_once(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def hang(*_: object) -> list[object]:
        asked.append(1)
        time.sleep(0.2)
        return []

    monkeypatch.setattr(attempt, "busy_gpus", hang)
    monkeypatch.setattr(attempt, "GPUS_HANG_AFTER_S", 0.1)
    with Workbench(desk.session_dir) as bench:
        results = [run_entry(desk.plan("write({})"), bench) for _ in range(2)]
    assert len(asked) == 1
    for result in results:
        assert (result.verdict, len(result.warnings)) == (Verdict.PASSED, 1)
        assert result.warnings[0].startswith("the GPU driver does not answer")


def test_a_run_without_a_bench_has_one_of_its_own(desk: Desk) -> None:
    before = threading.active_count()
    assert run_entry(desk.plan("write({})")).verdict is Verdict.PASSED
    assert threading.active_count() <= before


def test_entries_one_after_another_leave_no_thread_and_no_descriptor(desk: Desk) -> None:
    desk.run("write({})")
    before = threading.active_count(), len(os.listdir("/proc/self/fd"))
    for code in ("write({})", "sys.exit(1)", "write({}); os.kill(os.getpid(), 9)"):
        desk.run(code)
    assert (threading.active_count(), len(os.listdir("/proc/self/fd"))) == before
