"""Data setups: once a session before its first run, whatever the number of processes."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from curator_bench.errors import DatasetError
from curator_bench.execution.data_setups import ensure
from curator_bench.execution.run import run_entry
from curator_bench.values import Plan, SetupNeed, Verdict

if TYPE_CHECKING:
    from execution.conftest import Desk

COUNTS = "import os, sys, time; time.sleep(0.3); open('ran', 'a').write(os.environ.get('WHO', '-')); print('ready')"


class Setup:
    def __init__(self, folder: Path, plan: Plan) -> None:
        self.folder = folder
        self.plan = plan
        self.directory = Path(plan.session_dir, "data_setup", "fleurs")

    def need(self, code: str = COUNTS, **more: Any) -> SetupNeed:
        return replace(SetupNeed("fleurs", (sys.executable, "-c", code), 60.0), **more)

    def ensure(self, need: SetupNeed, **plan: Any) -> None:
        ensure(need, replace(self.plan, **plan), dict(os.environ))

    @property
    def ran(self) -> str:
        file = self.folder / "ran"
        return file.read_text() if file.exists() else ""


@pytest.fixture
def setup(desk: Desk) -> Setup:
    return Setup(desk.folder, desk.plan("write({})", invocation="first"))


def test_it_runs_once_in_a_session_and_is_logged_there(setup: Setup) -> None:
    setup.ensure(setup.need(env={"WHO": "x"}))
    setup.ensure(setup.need())
    setup.ensure(setup.need(), invocation="second")
    assert setup.ran == "x"
    assert (setup.directory / "stdouterr.log").read_text() == "ready\n"


def test_another_session_runs_it_again(setup: Setup) -> None:
    setup.ensure(setup.need())
    setup.ensure(setup.need(), session_dir=str(setup.folder / "other"))
    assert setup.ran == "--"


def test_another_command_by_the_same_name_is_another_setup(setup: Setup) -> None:
    setup.ensure(setup.need())
    setup.ensure(setup.need(COUNTS + "; 'changed'"))
    assert setup.ran == "--"


def test_processes_that_begin_together_run_it_once(setup: Setup) -> None:
    code = (
        "import os, pickle, sys; from curator_bench.execution.data_setups import ensure\n"
        "ensure(*pickle.loads(bytes.fromhex(sys.argv[1])), dict(os.environ))"
    )
    import pickle

    handed = pickle.dumps((setup.need(), setup.plan)).hex()
    env = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2] / "src")}
    others = [subprocess.Popen([sys.executable, "-c", code, handed], env=env) for _ in range(3)]
    assert [other.wait() for other in others] == [0, 0, 0]
    assert setup.ran == "-"


def test_one_that_failed_is_told_to_every_run_but_not_tried_again_in_this_invocation(setup: Setup) -> None:
    failing = setup.need(COUNTS + "; print('no network'); sys.exit(3)")
    for _ in range(2):
        with pytest.raises(DatasetError, match=r"the data setup fleurs failed \(exit code 3\)[\s\S]*no network"):
            setup.ensure(failing)
    assert setup.ran == "-"
    setup.ensure(setup.need(), invocation="second")
    assert setup.ran == "--"


def test_one_that_takes_too_long_is_ended(setup: Setup) -> None:
    with pytest.raises(DatasetError, match=r"fleurs failed \(its time was over\)"):
        setup.ensure(setup.need("import time; time.sleep(600)", timeout_s=0.5))


def test_one_that_was_interrupted_runs_again(setup: Setup) -> None:
    with pytest.raises(FileNotFoundError):
        setup.ensure(setup.need(command=("/nowhere/python",)))
    setup.ensure(setup.need())
    assert setup.ran == "-"


def test_one_that_cannot_run_says_why(setup: Setup) -> None:
    with pytest.raises(DatasetError, match="the data setup fleurs cannot run: the script 'x' is nowhere"):
        setup.ensure(setup.need(problems=("the script 'x' is nowhere",)))


def test_a_failed_setup_makes_the_run_an_error_that_names_it(desk: Desk) -> None:
    need = SetupNeed("fleurs", (sys.executable, "-c", "raise SystemExit('no disk')"), 60.0)
    result = run_entry(desk.plan("write({})", data_setups=(need,), invocation="i"), desk.bench)
    assert result.verdict is Verdict.ERROR
    assert result.error.startswith("the data setup fleurs failed (exit code 1). The end of ")
    assert result.error.endswith("  no disk")


def test_setups_and_datasets_come_before_the_script_and_see_its_environment_without_ray(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RAY_ADDRESS", "203.0.113.7:6379")
    code = "import json, os; json.dump(dict(os.environ), open('seen', 'w'))"
    need = SetupNeed("fleurs", (sys.executable, "-c", code), 60.0, {"OWN": "1"})
    result = desk.run("write(json.load(open('seen')))", data_setups=(need,), env={"FROM_THE_ENTRY": "2"})
    assert (result.metrics["OWN"], result.metrics["FROM_THE_ENTRY"]) == ("1", "2")
    assert not [name for name in result.metrics if name.startswith("RAY_")]
