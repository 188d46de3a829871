"""The definition hash changes with the benchmark, and with nothing else."""

from __future__ import annotations

from pathlib import Path

import pytest

from curator_bench.matrix import LoadRequest, definition_hash, function_hash, load

MATRIX = """
paths: [{name: data, host_path: ./data}]
datasets: [{name: cc, formats: [{type: jsonl, path: "{data}/cc"}], generate: {script: make.py, args: "--n 1"}}]
entries:
  - name: x
    script: work.py
    matrix: {size: [1, 2]}
    args: --in {dataset:cc,jsonl} --size {size} --home ${HOME}
    env: {THREADS: "1", MY_TOKEN: "abcdefgh"}
    ray: {num_cpus: 2}
    timeout_s: 5
"""


def hash_of(folder: Path, text: str = MATRIX, script: str = "print()", home: str = "/home/a") -> str:
    folder.mkdir(exist_ok=True)
    folder.joinpath("work.py").write_text(script)
    folder.joinpath("make.py").write_text("print()")
    folder.joinpath("matrix.yaml").write_text(text)
    request = LoadRequest(files=(folder / "matrix.yaml",), variables={"HOME": home})
    return definition_hash(load(request).entries[0])


def test_it_is_the_same_in_every_clone_and_for_every_user(tmp_path: Path) -> None:
    assert hash_of(tmp_path / "one", home="/home/a") == hash_of(tmp_path / "two", home="/home/b")


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("timeout_s: 5", "timeout_s: 6"),
        ("abcdefgh", "another-secret"),
        ("host_path: ./data", "host_path: /elsewhere"),
        ("ray: {num_cpus: 2}", "ray: {num_cpus: 2, start_retries: 5}"),
        ("timeout_s: 5", "timeout_s: 5\n    requirements: [{metric: m, min_value: 1}]"),
    ],
)
def test_it_stays_when_the_benchmark_is_the_same(tmp_path: Path, old: str, new: str) -> None:
    assert old in MATRIX
    assert hash_of(tmp_path, MATRIX.replace(old, new)) == hash_of(tmp_path)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("--size {size}", "--sizes {size}"),
        ("size: [1, 2]", "size: [2, 1]"),
        ('"--n 1"', '"--n 2"'),
        ("num_cpus: 2", "num_cpus: 3"),
        ('THREADS: "1"', 'THREADS: "2"'),
        ("MY_TOKEN", "OTHER_TOKEN"),
    ],
)
def test_it_changes_with_the_benchmark(tmp_path: Path, old: str, new: str) -> None:
    assert old in MATRIX
    assert hash_of(tmp_path, MATRIX.replace(old, new)) != hash_of(tmp_path)


def test_it_changes_with_the_script(tmp_path: Path) -> None:
    assert hash_of(tmp_path, script="print(1)") != hash_of(tmp_path, script="print(2)")


def test_a_function_is_its_source_and_parameters() -> None:
    assert function_hash("def f(): ...", {"n": 1}) == function_hash("def f(): ...", {"n": 1})
    assert function_hash("def f(): ...", {"n": 1}) != function_hash("def f(): ...", {"n": 2})
    assert function_hash("def f(): ...", {}) != function_hash("def g(): ...", {})
