"""Whatever a file holds: loading it gives a matrix or mistakes, and nothing else.

Valid files are mangled in every way a person or a merge conflict might, and some more. The cases are the same in every
run; `CURATOR_BENCH_PROOF=full` runs fifty times as many.
"""

from __future__ import annotations

import os
import pickle
import random
import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from curator_bench.errors import MatrixError
from curator_bench.matrix import command_of
from curator_bench.matrix.schema import EntryBlock, FileBlock, RayBlock, RequirementBlock
from curator_bench.values import Matrix

if TYPE_CHECKING:
    from matrix.conftest import Folder

DATA = Path(__file__).parent / "data"
CASES = 10_000 if os.environ.get("CURATOR_BENCH_PROOF") == "full" else 200
SECONDS = 20
"""Of processor time, for one mangled file of a hundred lines; it takes milliseconds."""

SMALL = """\
x-base: &base {script: run.py, timeout_s: 60}
paths: [{name: data, host_path: ./data}]
datasets: [{name: cc, formats: [{type: t, path: "{data}/cc"}], generate: {script: m.py, args: "--to {dataset_dir}"}}]
entries:
  - <<: *base
    name: first
    matrix: {size: [1, 2], mode: {fast: {n: 1}, slow: {n: 2}}}
    exclude: [{size: 1, mode: slow}]
    include: [{size: 2, extra: yes}]
    args: >-
      --in ${IN:-{data}/x} {dataset:cc,t} --mode {mode} {mode.n} --json '{"a": [1]}'
    ray: {num_cpus: "{size}"}
    requirements: {speed: {min_value: 1, max_value: 3}, ok: {exact_value: true}}
  - {name: second, script: other.py, sink_data: {slack: {ping: [a]}}, env: {KEY: "${KEY}"}}
---
entries: [{name: second, repeat: 3}]
"""
JSON = '{"marks": ["a"], "mlflow": {"tracking_uri": "${U}"}, "entries": [{"name": "a", "script": "b", "ray": false}]}\n'
SEEDS = {
    "all_keys": (DATA / "all_keys.yaml").read_text(),
    "curator_shape": (DATA / "curator_shape.yaml").read_text(),
    "small": SMALL,
    "json": JSON,
}
MODELS = (FileBlock, EntryBlock, RayBlock, RequirementBlock)
KEYS = sorted({key for model in MODELS for key in model.model_fields})
VALUES = [
    *(
        "",
        "~",
        "null",
        "true",
        "no",
        "0",
        "-1",
        "1.5",
        "1e999",
        ".nan",
        ".inf",
        "-e5",
        "0x_",
        "08",
        "12:30",
        "2026-01-23",
    ),
    *(
        "[]",
        "{}",
        "[[]]",
        "[null]",
        "{a: }",
        "''",
        '""',
        "'",
        '"',
        "*base",
        "&base",
        "&a [*a]",
        "<<: *base",
        "? [a]",
        "!!int x",
    ),
    *(
        "${X}",
        '"${X}"',
        "${IN}",
        "${X:-{data}}",
        "${X:-${Y:-${Z:-{a}}}}",
        "$${X}",
        "${",
        "${SECRET_TOKEN}",
        '"${SECRET_TOKEN}"',
    ),
    *(
        "{data}",
        '"{data}"',
        '"{dataset:cc,t}"',
        '"{dataset:cc}"',
        '"{{x}}"',
        '"{size}"',
        '"{mode.n}"',
        '"{curator_repo_dir}"',
    ),
    *(
        "x" * 300,
        '"a\\0b"',
        '"\\n"',
        "é",
        "🙂",
        "a\tb",
        "- ",
        ": ",
        "# ",
        "%",
        "@",
        "|",
        ">-",
        "---",
        "...",
        "enabled: false",
    ),
    *(
        "99999999999999999999",
        "-.5",
        "10%",
        "8GiB",
        "default",
        "{enabled: false}",
        "[{name: a}, {name: a}]",
        "s3://b/x",
    ),
]
TOKEN = re.compile(rb"[\w.$/-]+|[^\w\s]|\s+")

Mangle = Callable[[random.Random, bytes], bytes]


def lines_of(data: bytes) -> list[bytes]:
    return data.splitlines(keepends=True) or [b"\n"]


def delete_lines(chance: random.Random, data: bytes) -> bytes:
    lines = lines_of(data)
    start = chance.randrange(len(lines))
    del lines[start : start + chance.choice([1, 1, 1, 2, 5])]
    return b"".join(lines)


def repeat_lines(chance: random.Random, data: bytes) -> bytes:
    lines = lines_of(data)
    start = chance.randrange(len(lines))
    block = lines[start : start + chance.choice([1, 1, 2, 5])]
    at = chance.choice([start, chance.randrange(len(lines))])
    return b"".join([*lines[:at], *block, *lines[at:]])


def swap_lines(chance: random.Random, data: bytes) -> bytes:
    lines = lines_of(data)
    one, two = chance.randrange(len(lines)), chance.randrange(len(lines))
    lines[one], lines[two] = lines[two], lines[one]
    return b"".join(lines)


def indent_line(chance: random.Random, data: bytes) -> bytes:
    lines = lines_of(data)
    at = chance.randrange(len(lines))
    lines[at] = chance.choice([b"  " + lines[at], b" " + lines[at], b"\t" + lines[at], lines[at][1:], lines[at][2:]])
    return b"".join(lines)


def change_token(chance: random.Random, data: bytes) -> bytes:
    tokens = TOKEN.findall(data) or [b""]
    at = chance.randrange(len(tokens))
    tokens[at] = chance.choice([b"", tokens[at] * 2, chance.choice(tokens), chance.choice(VALUES + KEYS).encode()])
    return b"".join(tokens)


def change_value(chance: random.Random, data: bytes) -> bytes:
    """Puts another value behind a key; what the key had, if it was a block, is left hanging."""
    lines = lines_of(data)
    with_key = [number for number, line in enumerate(lines) if b":" in line]
    if not with_key:
        return data
    at = chance.choice(with_key)
    lines[at] = lines[at].partition(b":")[0] + b": " + chance.choice(VALUES).encode() + b"\n"
    return b"".join(lines)


def change_value_inside(chance: random.Random, data: bytes) -> bytes:
    values = [*re.finditer(rb"(?<=[:\[,] )[^,\[\]{}\n]+", data)]
    if not values:
        return data
    found = chance.choice(values)
    return data[: found.start()] + chance.choice(VALUES).encode() + data[found.end() :]


def change_key(chance: random.Random, data: bytes) -> bytes:
    keys = [*re.finditer(rb"[\w-]+(?=:)", data)]
    if not keys:
        return data
    found = chance.choice(keys)
    return (
        data[: found.start()]
        + chance.choice([*KEYS, "name", "x-y", "enabled", "<<", ""]).encode()
        + data[found.end() :]
    )


def add_line(chance: random.Random, data: bytes) -> bytes:
    lines = lines_of(data)
    at = chance.randrange(len(lines))
    indentation = b" " * (len(lines[at]) - len(lines[at].lstrip(b" ")))
    new = indentation + chance.choice(KEYS).encode() + b": " + chance.choice(VALUES).encode() + b"\n"
    return b"".join([*lines[:at], new, *lines[at:]])


def change_bytes(chance: random.Random, data: bytes) -> bytes:
    mangled = bytearray(data or b" ")
    for _ in range(chance.choice([1, 1, 2, 8])):
        mangled[chance.randrange(len(mangled))] = chance.choice(
            [chance.randrange(256), chance.choice(b"{}[]:,&*!|>'\"%@`#-\n ")]
        )
    return bytes(mangled)


def cut_off(chance: random.Random, data: bytes) -> bytes:
    at = chance.randrange(len(data) + 1)
    return chance.choice([data[:at], data[at:]])


def splice(chance: random.Random, data: bytes) -> bytes:
    other = chance.choice(list(SEEDS.values())).encode()
    return data[: chance.randrange(len(data) + 1)] + other[chance.randrange(len(other)) :]


MANGLES: list[Mangle] = [
    *(delete_lines, repeat_lines, swap_lines, indent_line, change_token, change_token, change_value, change_value),
    *(change_value_inside, change_value_inside, change_value_inside, change_key, add_line, add_line),
    *(change_bytes, cut_off, splice),
]


def mangled(chance: random.Random, seed: str) -> bytes:
    data = seed.encode()
    for _ in range(chance.choice([1, 1, 1, 2, 3, 6])):
        data = chance.choice(MANGLES)(chance, data)
    return data


@pytest.mark.timeout(1800)
@pytest.mark.parametrize("seed", SEEDS)
def test_a_mangled_matrix_gives_a_matrix_or_mistakes(folder: Folder, seed: str) -> None:
    outcomes = {Matrix: 0, MatrixError: 0}
    for number in range(CASES):
        chance = random.Random(f"{seed} {number}")
        data = mangled(chance, SEEDS[seed])
        overlay = mangled(chance, SEEDS[seed]) if chance.random() < 0.2 else None
        start = time.process_time()
        try:
            outcome = load_all(folder, data, overlay, strict=chance.random() < 0.2)
        except Exception as error:
            shown = "\n".join(part.decode(errors="replace") for part in (data, overlay) if part is not None)
            raise AssertionError(f"case {number} of {seed}: {error!r} for\n{shown}") from error
        assert time.process_time() - start < SECONDS, f"case {number} of {seed} took too long:\n{data!r}"
        outcomes[outcome] += 1
    assert all(count > CASES / 50 for count in outcomes.values()), f"the mangling is too coarse or too fine: {outcomes}"


def load_all(folder: Folder, data: bytes, overlay: bytes | None, *, strict: bool) -> type:
    """What loading came to. Of a matrix all that is asked of it later is asked; of mistakes, that they can be read."""
    variables = {"IN": "/in put", "SECRET_TOKEN": "very-secret-value", "KEY": "{data} ${X} '"}
    overlays = () if overlay is None else (folder.write(overlay, "overlay.yaml"),)
    try:
        matrix = folder.load(data, overlays=overlays, variables=variables, strict=strict)
    except MatrixError as error:
        check_mistakes(error)
        return MatrixError
    assert len({entry.id for entry in matrix.entries}) == len(matrix.entries)
    assert len({tuple(part.casefold() for part in entry.folder) for entry in matrix.entries}) == len(matrix.entries)
    assert all(problem for entry in matrix.entries for problem in entry.problems)
    for entry in matrix.entries[:20]:
        assert all(isinstance(word, str) for word in command_of(entry, variables).args)
    assert repr(pickle.loads(pickle.dumps(matrix.entries))) == repr(matrix.entries)
    return Matrix


def check_mistakes(error: MatrixError) -> None:
    told = str(error)
    assert error.mistakes
    assert "very-secret-value" not in told
    assert told.count("\n") == len(error.mistakes), "each mistake is one line"


@pytest.mark.timeout(1800)
def test_noise_gives_mistakes(folder: Folder) -> None:
    for number in range(CASES):
        chance = random.Random(number)
        size = chance.choice([0, 1, 2, 10, 100, 1000])
        alphabet = chance.choice([bytes(range(256)), b"{}[]:,&*!|>'\"%@`#-? \nab01$.", b"-: \n\tab", b"[]{},:&*a "])
        load_all(folder, bytes(chance.choices(alphabet, k=size)), None, strict=False)


@pytest.mark.parametrize("seed", SEEDS)
def test_the_files_that_are_mangled_are_valid(folder: Folder, seed: str) -> None:
    assert folder.load(SEEDS[seed], curator_repo="/repo").entries
