"""One execution of a script: what it is given, what it may do, what is kept of it."""

from __future__ import annotations

import json
import math
import os
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from curator_bench.execution import script
from curator_bench.masking import Mask
from curator_bench.measure.processes import busyness
from curator_bench.values import Verdict

if TYPE_CHECKING:
    from execution.conftest import Desk

TELLS_ITS_ARGUMENTS = "write({str(number): word for number, word in enumerate(sys.argv[1:])})"


def test_a_script_that_ends_well_has_passed_with_its_numbers(desk: Desk) -> None:
    result = desk.run("write({'is_success': True, 'docs': 12}, {'size': 3})")
    assert (result.verdict, result.error, result.exit_code) == (Verdict.PASSED, "", 0)
    assert {name: result.metrics[name] for name in ("is_success", "docs")} == {"is_success": True, "docs": 12}
    assert result.params == {"size": 3}
    assert result.warnings == ()


def test_the_interpreter_is_the_one_the_plan_names(desk: Desk) -> None:
    wrapper = desk.folder / "other-python"
    wrapper.write_text(f'#!/bin/sh\nBY_THE_WRAPPER=yes exec {sys.executable} "$@"\n')
    wrapper.chmod(0o755)
    code = "write({'by': os.environ.get('BY_THE_WRAPPER', 'ours')})"
    assert desk.run(code).metrics["by"] == "ours"
    assert desk.run(code, python=str(wrapper)).metrics["by"] == "yes"


def test_words_reach_the_script_as_they_are_without_a_shell(desk: Desk) -> None:
    words = ["two words", "$(touch pwned)", "*", "; exit 3", "~", '{"min": 8}', "", "ünï"]
    result = desk.run(TELLS_ITS_ARGUMENTS, *words)
    assert [result.metrics[str(number)] for number in range(len(words))] == words
    assert not (desk.folder / "pwned").exists()


def test_the_entrys_folder_is_filled_in_by_both_its_names_in_arguments_and_environment(desk: Desk) -> None:
    code = "write({'new': sys.argv[1], 'old': sys.argv[2], 'env': os.environ['OUT']})"
    result = desk.run(code, "{session_entry_dir}/a", "{session}/b", env={"OUT": "{session_entry_dir}/c"})
    found = [result.metrics[name] for name in ("new", "old", "env")]
    assert found == [f"{desk.entry_dir}/{name}" for name in "abc"]


def test_the_results_path_is_appended(desk: Desk) -> None:
    result = desk.run(TELLS_ITS_ARGUMENTS, "first")
    assert result.command[-2:] == ("--benchmark-results-path", str(desk.entry_dir / "benchmark_results"))
    assert result.metrics["2"] == str(desk.entry_dir / "benchmark_results")


@pytest.mark.parametrize("words", [["--benchmark-results-path", "mine"], ["--benchmark-results-path=mine"]])
def test_a_results_path_in_the_arguments_is_where_results_are_read(desk: Desk, words: list[str]) -> None:
    code = """
    mine = Path("mine")
    mine.joinpath("metrics.json").write_text('{"from": "mine"}')
    mine.joinpath("said.json").write_text(json.dumps(sys.argv[1:]))
    """
    result = desk.run(code, *words)
    assert result.metrics["from"] == "mine"
    assert json.loads((desk.folder / "mine" / "said.json").read_text()) == words  # nothing appended


def test_a_results_path_without_a_directory_harms_no_file(desk: Desk) -> None:
    (desk.folder / "metrics.json").write_text("somebody's")
    result = desk.run("sys.exit(2)", "--benchmark-results-path")
    assert result.verdict is Verdict.CRASHED
    assert (desk.folder / "metrics.json").read_text() == "somebody's"


@pytest.mark.parametrize("words", [[], ["--benchmark-results-path", "mine"]])
def test_results_of_an_earlier_run_are_not_read(desk: Desk, words: list[str]) -> None:
    assert desk.run("write({'old': 1}); Path(results_dir(), 'tasks.pkl').write_bytes(b'?')", *words).metrics["old"] == 1
    result = desk.run("pass", *words)
    assert result.verdict is Verdict.CRASHED
    assert "metrics.json was not written" in result.error
    assert "old" not in result.metrics
    assert result.warnings == ()


def test_output_goes_to_the_log_by_descriptor_and_stands_in_order(desk: Desk) -> None:
    code = """
    os.write(1, b"out\\n")
    os.write(2, b"err\\n")
    os.write(1, b"\\xff\\xfe raw\\n")
    write({"out": os.readlink("/proc/self/fd/1"), "err": os.readlink("/proc/self/fd/2"), "in": sys.stdin.read()})
    """
    result = desk.run(code)
    assert desk.log.read_bytes() == b"out\nerr\n\xff\xfe raw\n"
    assert (result.metrics["out"], result.metrics["err"]) == (str(desk.log), str(desk.log))
    assert result.metrics["in"] == ""
    assert result.log_path == str(desk.log)


def test_a_grandchild_that_holds_stdout_does_not_hold_up_the_run(desk: Desk) -> None:
    code = """
    import subprocess
    print(subprocess.Popen(["sleep", "600"], start_new_session=True).pid)
    write({"ok": True})
    """
    began = time.monotonic()
    result = desk.run(code)
    assert result.verdict is Verdict.PASSED
    assert time.monotonic() - began < 15 * busyness()
    assert not desk.processes()


def test_nothing_of_a_stubborn_tree_outlives_its_timeout(desk: Desk) -> None:
    """The script and a daemon in a session of its own ignore SIGTERM; the daemon holds stdout."""
    code = """
    import signal, subprocess
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    write({"half_way": 1})
    daemon = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('ready', flush=True); "
    daemon += "time.sleep(600)"
    subprocess.Popen([sys.executable, "-c", f"import os\\nif os.fork() == 0:\\n  os.setsid()\\n  {daemon}"])
    time.sleep(600)
    """
    began = time.monotonic()
    timeout_s = math.ceil(2 * busyness())
    result = desk.run(code, timeout_s=float(timeout_s))
    assert (
        time.monotonic() - began < 20 * busyness()
    )  # it is asked for 5 s, and the daemon would hold it for ten minutes
    assert result.verdict is Verdict.TIMEOUT
    assert result.error == f"stopped at timeout_s = {timeout_s} s"
    assert result.metrics["half_way"] == 1
    assert result.exit_code is None
    assert result.log_tail == ("ready",)
    assert not desk.processes()


def test_a_script_that_heeds_sigterm_may_still_write_at_its_timeout(desk: Desk) -> None:
    code = """
    import signal
    def last_words(*_):
        write({"last": 7})
        sys.exit(0)
    signal.signal(signal.SIGTERM, last_words)
    time.sleep(600)
    """
    result = desk.run(code, timeout_s=busyness())
    assert (result.verdict, result.metrics["last"]) == (Verdict.TIMEOUT, 7)


@pytest.mark.parametrize(
    ("code", "error"),
    [
        ("sys.exit(3)", "the script ended with exit code 3"),
        ("os.kill(os.getpid(), 9)", "the script was ended by SIGKILL"),
        ("import ctypes; print('before', flush=True); ctypes.string_at(0)", "the script was ended by SIGSEGV"),
        ("os.kill(os.getpid(), 40)", "the script was ended by signal 40"),
        ("pass", "metrics.json was not written to "),
        ("Path(results_dir(), 'metrics.json').write_text('{')", "metrics.json breaks off in the middle"),
    ],
)
def test_a_script_that_fails_has_crashed_and_how_is_said(desk: Desk, code: str, error: str) -> None:
    result = desk.run(code)
    assert result.verdict is Verdict.CRASHED
    assert result.error.startswith(error)


@pytest.mark.parametrize(
    ("folder", "verdict"), [("site-packages", Verdict.ERROR), ("helpers", Verdict.CRASHED)], ids=["library", "own code"]
)
def test_a_library_that_lacks_a_module_is_an_error_and_an_import_of_ones_own_is_not(
    desk: Desk, tmp_path: Path, folder: str, verdict: Verdict
) -> None:
    """As cudf, where there is no GPU. What a commit broke has crashed: bisecting has to find it."""
    imported = tmp_path / folder / "frames.py"
    imported.parent.mkdir()
    imported.write_text("import cudf.core\n")
    result = desk.run(f"sys.path.insert(0, {str(imported.parent)!r})\nimport frames")
    assert result.verdict is verdict
    assert ("a library of the script needs cudf, which" in result.error) == (verdict is Verdict.ERROR)
    assert result.log_tail[-1] == "ModuleNotFoundError: No module named 'cudf'"


def test_a_crashed_script_keeps_what_it_wrote_and_the_end_of_its_log(desk: Desk) -> None:
    result = desk.run("[print('line', n) for n in range(100)]; write({'so_far': 5}); sys.exit(1)")
    assert result.metrics["so_far"] == 5
    assert result.exit_code == result.metrics["exit_code"] == 1
    assert result.log_tail == tuple(f"line {n}" for n in range(70, 100))


def test_a_pickle_of_tasks_becomes_metrics(desk: Desk) -> None:
    code = """
    import pickle
    tasks = [{"_stage_perf": [{"stage_name": "sort", "process_time": seconds}]} for seconds in (1.0, 3.0)]
    Path(results_dir(), "tasks.pkl").write_bytes(pickle.dumps(tasks))
    write({})
    """
    assert desk.run(code).metrics["task_sort_process_time_mean"] == 2.0


def test_what_is_odd_about_the_files_is_a_warning(desk: Desk) -> None:
    result = desk.run("write({'rate': float('nan')}); Path(results_dir(), 'tasks.pkl').write_bytes(b'no pickle')")
    assert result.verdict is Verdict.PASSED
    assert any(text.startswith("tasks.pkl") for text in result.warnings)


def test_the_bench_measures_time_memory_and_exit_code_itself(desk: Desk) -> None:
    code = """
    import subprocess
    holds = "held = bytearray(b'1' * 150_000_000); input()"
    child = subprocess.Popen([sys.executable, "-c", holds], stdin=subprocess.PIPE)
    began = time.process_time()
    while time.process_time() - began < 0.5:
        pass
    time.sleep(1)
    child.communicate()
    write({})
    """
    metrics = desk.run(code).metrics
    assert metrics["exit_code"] == 0
    assert 1.5 <= float(str(metrics["exec_time_s"])) < 25
    assert 0.5 <= float(str(metrics["cpu_time_s"])) < 10
    assert 150_000_000 < float(str(metrics["peak_memory_bytes"])) < 1_000_000_000
    assert 0 < float(str(metrics["average_memory_bytes"])) <= float(str(metrics["peak_memory_bytes"]))


def test_the_benchs_own_figures_go_before_a_scripts_of_the_same_name(desk: Desk) -> None:
    result = desk.run("write({'exec_time_s': -1, 'exit_code': 77})")
    assert result.metrics["exit_code"] == 0
    assert float(str(result.metrics["exec_time_s"])) > 0
    assert result.warnings == ("the bench's own exec_time_s, exit_code replaces the script's metric of that name",)


def test_the_script_sees_our_environment_without_ray_and_pytest_and_with_its_own(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("PYTEST_ADDOPTS", "PYTEST_ARGS"):  # the user's own
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("FROM_THE_USER", "kept")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "1,3")
    monkeypatch.setenv("COVERAGE_PROCESS_CONFIG", "of pytest-cov, which would trace the script")
    for name in ("RAY_ADDRESS", "RAY_AUTH_MODE", "RAY_AUTH_TOKEN", "RAY_TMPDIR", "RAY_DEDUP_LOGS"):
        monkeypatch.setenv(name, "the user's")
    result = desk.run("write(dict(os.environ))", env={"FROM_THE_ENTRY": "given", "RAY_DEDUP_LOGS": "0"})
    seen = result.metrics
    assert (seen["FROM_THE_USER"], seen["FROM_THE_ENTRY"], seen["CUDA_VISIBLE_DEVICES"]) == ("kept", "given", "1,3")
    assert {name: seen[name] for name in seen if name.startswith("RAY_")} == {"RAY_DEDUP_LOGS": "0"}
    assert "PYTEST_CURRENT_TEST" in os.environ
    assert not [name for name in seen if name.startswith(("PYTEST_", "COVERAGE_"))]


def test_our_own_environment_is_not_touched(desk: Desk) -> None:
    def ours() -> dict[str, str]:
        return {name: value for name, value in os.environ.items() if name != "PYTEST_CURRENT_TEST"}

    before = ours()
    desk.run("write({})", env={"ONLY_FOR": "the script"})
    assert ours() == before


def test_secrets_are_masked_wherever_we_write_them(desk: Desk) -> None:
    code = """
    print("my token is", sys.argv[1])
    write({"said": sys.argv[1]}, {"argv": sys.argv})
    sys.exit(1)
    """
    secret = "hunter2hunter2"
    result = desk.run(code, secret, mask=Mask(frozenset([secret])))
    assert secret not in repr(result)
    assert result.log_tail == ("my token is ***",)
    assert result.metrics["said"] == "***"
    ours = [path for path in desk.session_dir.rglob("*") if path.is_file() and path.parent.name not in ("logs",)]
    told = [path.name for path in ours if secret in path.read_text(errors="replace")]
    assert sorted(told) == ["metrics.json", "params.json"]  # what a script itself writes is its own


def test_an_interpreter_that_is_not_there_is_an_error_that_names_it(desk: Desk) -> None:
    result = desk.run("write({})", python="/nowhere/python")
    assert (result.verdict, result.error) == (Verdict.ERROR, "No such file or directory: /nowhere/python")


def test_a_word_that_no_process_can_be_given_is_an_error(desk: Desk) -> None:
    result = desk.run("write({})", "a\0b")
    assert result.verdict is Verdict.ERROR
    assert result.error.startswith("the command cannot be started: embedded null")


def test_the_command_is_written_as_it_can_be_pasted(desk: Desk) -> None:
    desk.run("write({})", "two words", env={"X": "1"})
    said = (desk.entry_dir / "command.txt").read_text()
    results = desk.entry_dir / "benchmark_results"
    assert said == f"{sys.executable} {desk.folder}/script.py 'two words' --benchmark-results-path {results}\n"


def test_the_script_works_in_the_folder_of_its_matrix(desk: Desk) -> None:
    assert desk.run("write({'cwd': os.getcwd()})").metrics["cwd"] == str(Path(desk.folder).resolve())


@pytest.mark.parametrize(("counts", "is_said"), [((3, 4), True), ((4, 4), False)])
def test_a_crash_while_the_kernel_ended_processes_for_memory_says_so(
    desk: Desk, monkeypatch: pytest.MonkeyPatch, counts: tuple[int, int], is_said: bool
) -> None:
    counted = iter(counts)
    monkeypatch.setattr(script, "memory_kills", lambda: next(counted))
    result = desk.run("os.kill(os.getpid(), 9)")
    assert result.verdict is Verdict.CRASHED
    assert result.error.startswith("the script was ended by SIGKILL")
    assert ("because memory ran out" in result.error) is is_said
