"""Of variables only names and keyed hashes are kept; packages are those of the Python that runs the script."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
from pathlib import Path

import pytest

from curator_bench.provenance.circumstances import environment_facts, hash_key, machine_facts, python_facts

VARIABLES = {"THREADS": "4", "API_TOKEN": "hunter2", "SSH_CONNECTION": "1.2.3.4", "PWD": "/home/me"}


def test_equal_values_have_equal_hashes_and_no_value_is_kept(tmp_path: Path) -> None:
    home = {"HOME": str(tmp_path)}
    one, other = (environment_facts(VARIABLES, hash_key(home)) for _ in range(2))
    assert one == other
    assert sorted(one) == ["API_TOKEN", "THREADS"]  # the others differ in any two sessions
    assert "hunter2" not in str(one)
    changed = environment_facts({**VARIABLES, "THREADS": "8"}, hash_key(home))
    assert changed["API_TOKEN"] == one["API_TOKEN"]
    assert changed["THREADS"] != one["THREADS"]


def test_the_key_is_random_and_its_owners_alone(tmp_path: Path) -> None:
    first, second = (hash_key({"HOME": str(tmp_path / name)}) for name in ("one", "two"))
    assert first != second
    (file,) = (file for file in tmp_path.joinpath("one").rglob("*") if file.is_file())
    assert file.stat().st_mode & 0o077 == 0


def test_without_a_place_for_a_key_hashes_say_that_they_cannot_be_compared(tmp_path: Path) -> None:
    tmp_path.joinpath("file").write_text("")
    nowhere = {"HOME": str(tmp_path / "file")}
    one, other = (environment_facts(VARIABLES, hash_key(nowhere)) for _ in range(2))
    assert one["THREADS"].partition(":")[0] != other["THREADS"].partition(":")[0]


def test_a_shared_secret_makes_machines_comparable(tmp_path: Path) -> None:
    shared = {"CURATOR_BENCH_HASH_KEY": "of the team"}
    assert hash_key({**shared, "HOME": str(tmp_path / "a")}) == hash_key({**shared, "HOME": str(tmp_path / "b")})


def test_packages_are_those_of_the_python_that_is_asked(tmp_path: Path) -> None:
    own = python_facts(sys.executable)
    assert own is not None
    assert own[0] == platform.python_version()
    assert "pytest" in own[1]
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", tmp_path / "venv"], check=True)
    other = python_facts(str(tmp_path / "venv" / "bin" / "python"))
    assert other is not None
    assert "pytest" not in other[1]
    assert python_facts(str(tmp_path / "no-python")) is None


def test_the_machine_is_described() -> None:
    assert {"cpu_model", "cores", "kernel", "memory"} <= machine_facts().keys()


@pytest.mark.parametrize(
    ("file", "text", "name", "told"),
    [
        ("cpu0/cpufreq/scaling_governor", "powersave", "cpu governor", "powersave"),
        ("cpufreq/boost", "1", "turbo", "on"),
        ("intel_pstate/no_turbo", "1", "turbo", "off"),
        ("intel_pstate/no_turbo", "0", "turbo", "on"),
        ("smt/active", "0", "hyper-threading", "off"),
    ],
)
def test_what_an_administrator_can_switch_is_described(
    file: str, text: str, name: str, told: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / file).write_text(f"{text}\n")
    monkeypatch.setattr("curator_bench.provenance.circumstances.CPU", tmp_path)
    assert machine_facts()[name] == told


@pytest.mark.skipif(sys.platform != "linux", reason="a FIFO is opened without a writer")
def test_what_stands_in_the_place_of_the_key_is_neither_waited_for_nor_followed(tmp_path: Path) -> None:
    folder = tmp_path / ".local" / "state" / "curator-bench"
    folder.mkdir(parents=True)
    (tmp_path / "known").write_text("known to somebody")
    for planted in ("pipe", "link"):
        key = folder / "hash-key"
        key.unlink(missing_ok=True)
        if planted == "pipe":
            os.mkfifo(key)
        else:
            key.symlink_to(tmp_path / "known")
        one, other = (hash_key({"HOME": str(tmp_path)}) for _ in range(2))
        assert b"known" not in one
        assert one != other  # each process has a key of its own, so nothing is compared
