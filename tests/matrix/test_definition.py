"""The definition hash changes with the benchmark, and with nothing else."""

from __future__ import annotations

from pathlib import Path

import pytest

from curator_bench.matrix import Definition, LoadRequest, definition_of, function_definition, load

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
    return defined(folder, text, script, home).hash


def defined(folder: Path, text: str = MATRIX, script: str = "print()", home: str = "/home/a") -> Definition:
    folder.mkdir(exist_ok=True)
    folder.joinpath("work.py").write_text(script)
    folder.joinpath("make.py").write_text("print()")
    folder.joinpath("matrix.yaml").write_text(text)
    request = LoadRequest(files=(folder / "matrix.yaml",), variables={"HOME": home})
    return definition_of(load(request).entries[0])


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
    one = function_definition("def f(): ...", {"n": 1})
    assert one == function_definition("def f(): ...", {"n": 1})
    assert one.hash != function_definition("def f(): ...", {"n": 2}).hash
    assert one.hash != function_definition("def g(): ...", {"n": 1}).hash


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("--size {size}", "--sizes {size}"),
        ("size: [1, 2]", "size: [2, 1]"),
        ('"--n 1"', '"--n 2"'),
        ("num_cpus: 2", "num_cpus: 3"),
        ("type: jsonl", "type: parquet"),
    ],
)
def test_another_benchmark_is_another_series(tmp_path: Path, old: str, new: str) -> None:
    assert old in MATRIX
    other = MATRIX.replace(old, new).replace(*(("cc,jsonl", "cc,parquet") if "parquet" in new else ("", "")))
    assert defined(tmp_path, other).series != defined(tmp_path).series


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('THREADS: "1"', 'THREADS: "1", MORE: "2"'),
        ("{num_cpus: 2}", "{num_cpus: 2, enable_object_spilling: false}"),
        ("host_path: ./data", "host_path: /elsewhere"),
    ],
)
def test_the_series_goes_on_when_only_its_surroundings_change(tmp_path: Path, old: str, new: str) -> None:
    assert old in MATRIX
    assert defined(tmp_path, MATRIX.replace(old, new)).series == defined(tmp_path).series


def test_an_added_variable_changes_the_content(tmp_path: Path) -> None:
    more = defined(tmp_path, MATRIX.replace('THREADS: "1"', 'THREADS: "1", MORE: "2"'))
    assert more.content_hash != defined(tmp_path).content_hash


SCRIPT = """
def work(n):
    return [number * 2 for number in range(n)]

print(f"{len(work(3))} done", {"a": (1, 2)})
"""
REWRITTEN = """
# a comment
def work(n):
    "A docstring."
    return [
        number * 2
        for number in range(n)]  # another
print( f"{len(work(3))} done", {'a': (1, 2,)} )
"""


def test_comments_formatting_and_docstrings_are_no_change_of_code(tmp_path: Path) -> None:
    one, other = defined(tmp_path, script=SCRIPT), defined(tmp_path, script=REWRITTEN)
    assert one.hash != other.hash
    assert (one.series, one.content_hash) == (other.series, other.content_hash)
    changed = defined(tmp_path, script=SCRIPT.replace("* 2", "* 3"))
    assert changed.series == one.series
    assert changed.content_hash != one.content_hash


@pytest.mark.parametrize("script", ["this is no Python\n", "\x00", "x = " + "(" * 5000])
def test_what_cannot_be_parsed_is_compared_by_its_bytes(tmp_path: Path, script: str) -> None:
    assert defined(tmp_path, script=script).content_hash != defined(tmp_path, script=script + "#").content_hash


def test_other_scripts_are_compared_by_their_bytes(tmp_path: Path) -> None:
    matrix = MATRIX.replace("script: work.py", "script: work.sh")
    hashes = set()
    for text in ("echo\n", "echo\n# a comment\n"):
        tmp_path.joinpath("work.sh").write_text(text)
        hashes.add(defined(tmp_path, matrix).content_hash)
    assert len(hashes) == 2


def test_the_definition_says_what_it_is_made_of_without_secrets(tmp_path: Path) -> None:
    found = defined(tmp_path, script=SCRIPT)
    assert found.sources["work.py"] == SCRIPT
    assert found.content["env"] == {"THREADS": "1", "MY_TOKEN": None}
    assert found.content["args"][:4] == ["--in", "{dataset:cc,jsonl}", "--size", "1"]
    assert found.content["ray"]["num_cpus"] == 2
    assert found.content["datasets"] == ["cc jsonl --n 1"]
