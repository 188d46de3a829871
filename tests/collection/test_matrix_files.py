"""The files that commands take for matrices are those that pytest would collect."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from curator_bench.collection.matrix_files import NOT_RECURSED, is_matrix, matrices_in

MATRIX = "ray: false\nentries:\n  - {name: one, script: one.py}\n"


def lay(top: Path, *names: str) -> None:
    for name in names:
        file = top / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(MATRIX.replace("one,", f"{name.replace('/', '_')},"))


def collected(pytester: pytest.Pytester) -> set[str]:
    lines = pytester.runpytest("--collect-only", "-q", ".").outlines
    return {line.partition("::")[0] for line in lines if "::" in line}


def found(top: Path) -> set[str]:
    return {file.relative_to(top).as_posix() for file in matrices_in([top])}


@pytest.mark.parametrize(
    "ini",
    [
        "",
        "norecursedirs = skipped deep/er .*\n",
        "bench_files = *suite.yaml\n",
        "norecursedirs = x*\nbench_files = *.yaml\n",
    ],
)
def test_commands_find_what_pytest_collects(pytester: pytest.Pytester, ini: str) -> None:
    folders = (".hidden", "build", "dist", "node_modules", "skipped", "deep/er", "x1", "benchmarks/below", "env")
    lay(pytester.path, "matrix.yaml", "my_suite.yaml", "a_benchmark.yml", *(f"{name}/matrix.yaml" for name in folders))
    (pytester.path / "env" / "pyvenv.cfg").touch()
    (pytester.path / "others").mkdir()
    (pytester.path / "others" / "build-matrix.yaml").write_text("os: [linux, windows]\n")
    pytester.makeini(f"[pytest]\n{ini}")
    assert found(pytester.path) == collected(pytester) != set()


def test_a_file_that_is_named_is_taken_as_it_is(tmp_path: Path) -> None:
    file = tmp_path / "anything.json"
    file.write_text("{}")
    assert list(matrices_in([file])) == [file]


def test_what_cannot_be_a_file_is_no_matrix_and_hangs_nobody(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo-matrix.yaml")
    (tmp_path / "folder-matrix.yaml").mkdir()
    (tmp_path / "link-matrix.yaml").symlink_to(tmp_path / "nowhere")
    assert found(tmp_path) == set()


def test_the_folders_that_are_left_out_by_default_are_pytests(pytester: pytest.Pytester) -> None:
    assert list(NOT_RECURSED) == pytester.parseconfig().getini("norecursedirs")


@pytest.mark.parametrize(
    ("text", "is_ours"),
    [
        (MATRIX, True),
        ("{entries: []}", True),
        ("? entries\n: []\n", True),
        ("env: {A: 1}\n---\nentries: []\n", True),
        ("&a a: 1\n*a : 2\nentries: []\n", True),
        ("a: {entries: 1}\n", False),
        ("a: entries\n", False),
        ("- entries: 1\n", False),
        ("entries\n", False),
    ],
)
def test_a_matrix_is_known_by_its_keys(tmp_path: Path, text: str, is_ours: bool) -> None:
    file = tmp_path / "matrix.yaml"
    file.write_text(text)
    assert is_matrix(file) is is_ours
