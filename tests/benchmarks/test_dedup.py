"""What the dedup suite promises: documents as they are said to be, exact answers, on Ray too, and files kept whole."""

from __future__ import annotations

import json
import os
import pickle
import random
import subprocess
import sys
import uuid
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from made_data import contents, make
from scripts_on_ray import metrics_of, small_cluster

from curator_bench.cluster.environment import without_ray
from curator_bench.cluster.model import Cluster

ROOT = Path(__file__).parents[2]
SUITE = ROOT / "benchmarks" / "dedup"
GENERATOR = SUITE / "make_corpus.py"
sys.path.insert(0, str(SUITE))

import exact_dedup  # noqa: E402
import fuzzy_dedup  # noqa: E402
import make_corpus  # noqa: E402
import planted  # noqa: E402
import removal  # noqa: E402
from documents import document_files, ids_in, read_columns  # noqa: E402
from exchange import read_partition, write_partitions  # noqa: E402
from lsh import probability_of_candidacy  # noqa: E402
from minhash import MinHashSettings  # noqa: E402

Item = TypeVar("Item")
Result = TypeVar("Result")
ID = pa.field("id", pa.int64())


class Inline:
    """Does the work of an executor here and now."""

    def run(self, work: Callable[[Item], Result], items: Sequence[Item]) -> list[Result]:
        return [work(item) for item in items]


def ngrams(text: str, length: int) -> set[str]:
    return {text[start : start + length] for start in range(max(1, len(text) - length + 1))}


def true_jaccard(left: str, right: str, length: int) -> float:
    one, other = ngrams(left, length), ngrams(right, length)
    return len(one & other) / len(one | other)


# --- handing over and grouping ---------------------------------------------------------------------------------------


@given(st.lists(st.lists(st.integers(0, 4), max_size=20), min_size=1, max_size=4))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_every_row_arrives_in_its_partition_and_in_no_other(tmp_path: Path, files: list[list[int]]) -> None:
    folder = tmp_path / uuid.uuid4().hex
    for number, partition_of in enumerate(files):
        columns = {"row": np.arange(len(partition_of)) + 100 * number}
        write_partitions(folder / f"part.{number}", columns, np.array(partition_of, np.uint16), 5)
    for partition in range(5):
        expected = [
            100 * number + row for number, file in enumerate(files) for row in np.flatnonzero(np.equal(file, partition))
        ]
        assert read_partition(folder, partition)["row"].to_pylist() == expected


@given(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 2)), max_size=30), st.randoms())
def test_of_equal_hashes_the_lowest_id_is_kept(hashes: list[tuple[int, int]], shuffler: random.Random) -> None:
    ids = list(range(len(hashes)))
    shuffler.shuffle(ids)
    lowest: dict[tuple[int, int], int] = {}
    for number, key in zip(ids, hashes, strict=True):
        lowest[key] = min(number, lowest.get(key, number))
    expected = {(n, lowest[key]) for n, key in zip(ids, hashes, strict=True) if n != lowest[key]}
    high, low = np.array(hashes, np.uint64).reshape(-1, 2).T
    found = exact_dedup.duplicates_among(high, low, np.array(ids, np.int64))
    assert set(zip(*(side.tolist() for side in found), strict=True)) == expected


# --- the documents that are made -------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("documents") / "S"
    make(GENERATOR, folder)
    return folder


def texts_of(corpus: Path) -> list[str]:
    return [text for file in document_files(corpus / "parquet", "parquet") for text in texts_in(file)]


def texts_in(file: Path) -> list[str]:
    texts: list[str] = read_columns(file, [pa.field("text", pa.string())])["text"].to_pylist()
    return texts


def test_the_same_size_and_seed_make_the_same_files_and_another_seed_others(corpus: Path, tmp_path: Path) -> None:
    make(GENERATOR, tmp_path / "again")
    make(GENERATOR, tmp_path / "other", "--seed", "2")
    made = contents(corpus)
    assert contents(tmp_path / "again") == made
    other = contents(tmp_path / "other")
    assert [name for name in made if other[name] == made[name]] == []


def test_both_formats_hold_the_same_documents(corpus: Path) -> None:
    columns = [ID, pa.field("url", pa.string()), pa.field("text", pa.string())]
    for lines, rows in zip(sorted((corpus / "jsonl").iterdir()), sorted((corpus / "parquet").iterdir()), strict=True):
        assert read_columns(lines, columns).equals(read_columns(rows, columns))


def test_what_is_said_of_planted_documents_is_true(corpus: Path) -> None:
    texts = texts_of(corpus)
    first = {text: number for number, text in reversed(list(enumerate(texts)))}
    copies = {(number, first[text]) for number, text in enumerate(texts) if first[text] != number}
    truth = pq.read_table(corpus / "truth" / "exact.parquet").to_pylist()
    assert {(row["id"], row["kept_id"]) for row in truth} == copies
    assert len(copies) == 0.1 * len(texts)
    for row in pq.read_table(corpus / "truth" / "near.parquet").to_pylist()[::7]:
        exact = true_jaccard(texts[row["left"]], texts[row["right"]], make_corpus.NGRAM)
        assert exact == pytest.approx(row["jaccard"], abs=1e-12)
        assert exact == pytest.approx(row["percent"] / 100, abs=0.002)


# --- finding them, without Ray ---------------------------------------------------------------------------------------


def exact_settings(folder: Path) -> exact_dedup.Settings:
    return exact_dedup.Settings("id", "text", folder / "hashes", folder / "duplicates", 3)


def fuzzy_settings(folder: Path, **minhash: int) -> fuzzy_dedup.Settings:
    return fuzzy_dedup.Settings("id", "text", MinHashSettings(**minhash), 16, folder / "keys", folder / "duplicates", 3)


def duplicates_in(folder: Path) -> set[tuple[int, int]]:
    table = ds.dataset(folder / "duplicates").to_table()
    return set(zip(table["id"].to_pylist(), table["kept_id"].to_pylist(), strict=True))


def write_documents(folder: Path, form: str, *files: list[dict[str, Any]]) -> list[Path]:
    folder.mkdir(parents=True, exist_ok=True)
    for number, rows in enumerate(files):
        if form == "parquet":
            schema = pa.schema([ID, ("text", pa.string())])
            pq.write_table(pa.Table.from_pylist(rows, schema=schema), folder / f"{number}.parquet")
        else:
            (folder / f"{number}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return document_files(folder, form)


@pytest.mark.parametrize("form", ["jsonl", "parquet"])
def test_texts_that_differ_in_a_blank_are_not_the_same(tmp_path: Path, form: str) -> None:
    texts = ["", "a", "a ", "\n", "é", "e\u0301", "", "a"]
    rows = [{"id": number, "text": text} for number, text in enumerate(texts)]
    files = write_documents(tmp_path / "in", form, rows[5:], [], rows[:5])
    _, grouped = exact_dedup.deduplicate(Inline(), exact_settings(tmp_path), files)
    assert duplicates_in(tmp_path) == {(6, 0), (7, 1)}
    assert sum(one.duplicates for one in grouped) == 2
    assert not (tmp_path / "hashes").exists()


def test_documents_without_text_or_id_are_told_with_their_file(tmp_path: Path) -> None:
    (lines,) = write_documents(tmp_path / "lines", "jsonl", [{"id": 1, "text": None}])
    (rows,) = write_documents(tmp_path / "rows", "parquet", [{"id": None, "text": "a"}])
    for file, column in ((lines, "text"), (rows, "id")):
        with pytest.raises(ValueError, match=rf"{file.name} has documents without {column}"):
            fuzzy_dedup.deduplicate(Inline(), fuzzy_settings(tmp_path), [file])


@pytest.mark.parametrize("form", ["jsonl", "parquet"])
def test_planted_documents_are_found_as_often_as_theory_says(corpus: Path, tmp_path: Path, form: str) -> None:
    files = document_files(corpus / form, form)
    recalls = defaultdict(list)
    for seed in range(3):
        folder = tmp_path / str(seed)
        found = fuzzy_dedup.deduplicate(Inline(), fuzzy_settings(folder, seed=seed), files)
        metrics = planted.compare_fuzzy(corpus / "truth", found.ids, found.firsts)
        assert metrics["recall_exact_copies"] == 1
        assert metrics["false_duplicates"] == 0
        assert len(duplicates_in(folder)) == len(found.duplicates)
        for percent in make_corpus.PERCENTS:
            recalls[percent].append(metrics[f"recall_jaccard_{percent}"])
    for percent, shares in recalls.items():
        assert np.mean(shares) == pytest.approx(probability_of_candidacy(percent / 100, 128, 16), abs=0.1)


def test_what_was_missed_and_what_was_made_up_is_counted(corpus: Path, tmp_path: Path) -> None:
    truth = pq.read_table(corpus / "truth" / "exact.parquet").slice(2)
    made_up = pa.table({"id": pa.array([3], pa.int64()), "kept_id": pa.array([2], pa.int64())})
    (tmp_path / "found").mkdir()
    pq.write_table(pa.concat_tables([truth, made_up]), tmp_path / "found" / "part.parquet")
    metrics = planted.compare_exact(corpus / "truth", tmp_path / "found")
    assert (metrics["missed_duplicates"], metrics["false_duplicates"]) == (2, 1)
    everything = np.arange(4_000)
    joined = planted.compare_fuzzy(corpus / "truth", everything, np.zeros(4_000, np.int64))
    assert joined["recall_jaccard_30"] == 1
    assert joined["false_duplicates"] > 3_000
    nothing = planted.compare_fuzzy(corpus / "truth", everything[:0], everything[:0])
    assert (nothing["recall_jaccard_95"], nothing["recall_exact_copies"], nothing["false_duplicates"]) == (0, 0, 0)


# --- removal, without Ray --------------------------------------------------------------------------------------------


def removal_settings(folder: Path, ids: Sequence[int | str]) -> removal.Settings:
    (folder / "ids").mkdir(parents=True)
    pq.write_table(pa.table({"duplicate": list(ids)}), folder / "ids" / "part.parquet")
    (folder / "out").mkdir()
    return removal.Settings("id", folder / "ids", "duplicate", folder / "out")


LINES = (
    b'{"id": 5, "text": "\xc3\xa9  \\u00e9", "more": {"id": 6}}\r\n\n  \n {"text":"b","id":6}\n'
    b'{"id":7,"text":"\\ud83d\\ude42"}'
)


@pytest.mark.parametrize(
    ("leave", "left"),
    [
        ([6, 99], LINES.replace(b'\n\n  \n {"text":"b","id":6}\n', b"\n")),
        ([5, 7], b' {"text":"b","id":6}\n'),
        ([5, 6, 7], b""),
        ([1], LINES.replace(b"\n\n  \n", b"\n")),
    ],
)
def test_lines_that_stay_are_the_same_to_the_byte(tmp_path: Path, leave: list[int], left: bytes) -> None:
    file = tmp_path / "a.jsonl"
    file.write_bytes(LINES)
    removed = removal.remove_from_file(removal_settings(tmp_path, leave), file)
    assert (tmp_path / "out" / "a.jsonl").read_bytes() == left
    assert (removed.documents, removed.removed) == (3, len({5, 6, 7} & set(leave)))


@pytest.mark.parametrize(
    "lines",
    [
        b'{"id":1}{"id":2}\n{"id":\n3}\n',
        b'{"id":1}{"id":2}\n',
        b'{"id":\n1}\n',
    ],
)
def test_lines_that_are_not_one_object_each_are_refused_not_guessed_at(tmp_path: Path, lines: bytes) -> None:
    file = tmp_path / "a.jsonl"
    file.write_bytes(lines)
    with pytest.raises(ValueError, match=r"a\.jsonl is not one JSON object per line"):
        removal.remove_from_file(removal_settings(tmp_path, [2]), file)


def test_a_document_without_id_is_not_kept_or_removed_in_silence(tmp_path: Path) -> None:
    file = tmp_path / "a.jsonl"
    file.write_bytes(b'{"id":1}\n{"text":"b"}\n')
    with pytest.raises(ValueError, match="1 documents without id"):
        removal.remove_from_file(removal_settings(tmp_path, [2]), file)


@pytest.mark.parametrize("form", ["jsonl", "parquet"])
def test_ids_may_be_texts_and_files_empty(tmp_path: Path, form: str) -> None:
    options = removal_settings(tmp_path, ["b", "c"])
    schema = pa.schema([("id", pa.string()), ("text", pa.string())])
    for name, ids in {"full": ["a", "b", "z"], "empty": []}.items():
        file = tmp_path / f"{name}.{form}"
        rows = [{"id": one, "text": one * 3} for one in ids]
        if form == "parquet":
            pq.write_table(pa.Table.from_pylist(rows, schema=schema), file)
        else:
            file.write_text("".join(json.dumps(row) + "\n" for row in rows))
        removal.remove_from_file(options, file)
    left = ids_in(sorted((tmp_path / "out").iterdir()), pa.field("id", pa.string()))
    assert left.tolist() == ["a", "z"]


@pytest.mark.parametrize("form", ["jsonl", "parquet"])
def test_just_the_documents_with_these_ids_are_removed(corpus: Path, tmp_path: Path, form: str) -> None:
    files = document_files(corpus / form, form)
    leave = ds.dataset(corpus / "ids").to_table()["id"]
    options = replace(removal_settings(tmp_path, [0]), ids_to_remove=corpus / "ids", removal_id_field="id")
    removed = [removal.remove_from_file(options, file) for file in files]
    metrics = planted.compare_removal(files, document_files(tmp_path / "out", form), ID, leave)
    assert metrics == {"wrongly_kept": 0, "wrongly_removed": 0, "in_order": True}
    assert sum(one.removed for one in removed) == len(leave) == 600
    other = planted.compare_removal(files, document_files(tmp_path / "out", form), ID, leave.slice(1))
    assert other == {"wrongly_kept": 0, "wrongly_removed": 1, "in_order": False}


# --- on Ray ----------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with small_cluster(tmp_path_factory.mktemp("cluster")) as cluster:
        yield cluster


def run_script(cluster: Cluster, folder: Path, script: str, *options: str | Path) -> dict[str, Any]:
    return metrics_of(cluster, SUITE / script, folder / "results", *options, "--output-path", folder / "out")


def stages_of(folder: Path) -> set[str]:
    tasks = pickle.loads((folder / "results" / "tasks.pkl").read_bytes())
    return {stage["stage_name"] for task in tasks for stage in task["_stage_perf"] if stage["process_time"] >= 0}


def input_of(corpus: Path, form: str, executor: str) -> tuple[str | Path, ...]:
    return "--input-path", corpus / form, "--format", form, "--executor", executor


def required_metrics(script: str) -> set[str]:
    entries = yaml.safe_load((SUITE / "matrix.yaml").read_text())["entries"]
    return {one["metric"] for entry in entries if entry["script"] == script for one in entry["requirements"]}


@pytest.mark.slow
def test_on_ray_data_copies_are_found_and_removed_and_every_text_is_left_once(
    cluster: Cluster, corpus: Path, tmp_path: Path
) -> None:
    truth = ("--truth-path", corpus / "truth")
    options = input_of(corpus, "parquet", "ray_data")
    metrics = run_script(cluster, tmp_path / "found", "exact_dedup.py", *options, *truth)
    assert required_metrics("exact_dedup.py") <= metrics.keys()
    assert (metrics["missed_duplicates"], metrics["false_duplicates"], metrics["duplicates_found"]) == (0, 0, 400)
    assert stages_of(tmp_path / "found") == {"read", "hash", "hand_over", "gather", "group", "write"}
    ids = ("--ids-to-remove-path", tmp_path / "found" / "out" / "duplicates")
    metrics = run_script(cluster, tmp_path / "left", "removal.py", *options, *ids)
    assert required_metrics("removal.py") <= metrics.keys()
    assert (metrics["num_removed"], metrics["wrongly_kept"], metrics["wrongly_removed"]) == (400, 0, 0)
    left = [text for file in document_files(tmp_path / "left" / "out", "parquet") for text in texts_in(file)]
    assert len(left) == len(set(left)) == len(set(texts_of(corpus)))


@pytest.mark.slow
def test_on_actors_the_same_is_found_as_without_ray(cluster: Cluster, corpus: Path, tmp_path: Path) -> None:
    options = (*input_of(corpus, "jsonl", "ray_actors"), "--truth-path", corpus / "truth", "--partitions", "7")
    metrics = run_script(cluster, tmp_path / "ray", "fuzzy_dedup.py", *options)
    assert required_metrics("fuzzy_dedup.py") <= metrics.keys()
    fuzzy_dedup.deduplicate(Inline(), fuzzy_settings(tmp_path), document_files(corpus / "parquet", "parquet"))
    assert duplicates_in(tmp_path / "ray" / "out") == duplicates_in(tmp_path)
    assert metrics["duplicates_found"] == len(duplicates_in(tmp_path)) > 0
    stages = {"read", "minhash", "hand_over", "gather", "bands", "components", "write"}
    assert stages_of(tmp_path / "ray") == stages


def test_an_output_folder_with_something_in_it_is_left_alone(corpus: Path, tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "wanted").write_text("wanted")
    options: list[str | Path] = ["--output-path", tmp_path / "out", "--benchmark-results-path", tmp_path / "results"]
    ids: list[str | Path] = ["--ids-to-remove-path", corpus / "ids"]
    outcome = subprocess.run(
        [sys.executable, SUITE / "removal.py", *input_of(corpus, "jsonl", "ray_data"), *ids, *options],
        capture_output=True,
        text=True,
        check=False,
    )
    assert outcome.returncode == 1
    assert "is not empty" in outcome.stderr
    assert contents(tmp_path / "out") == {"wanted": b"wanted"}


@pytest.mark.slow
def test_the_matrix_makes_its_documents_and_an_entry_passes(tmp_path: Path) -> None:
    """`make bench` runs all of them."""
    words = ["-m", "dedup", "-k", "removal and ray_actors and parquet", "-p", "no:cacheprovider"]
    outcome = subprocess.run(
        [sys.executable, "-m", "pytest", SUITE, *words, "--bench-results", tmp_path / "results"],
        env={**without_ray(os.environ), "DATASETS_DIR": str(tmp_path / "datasets"), "DEDUP_SIZE": "S"},
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
    )
    assert outcome.returncode == 0, outcome.stdout + outcome.stderr
    assert "1 passed" in outcome.stdout
    assert (tmp_path / "datasets" / "documents_S" / "jsonl").is_dir()


def test_datasketch_sees_the_same_similarity(tmp_path: Path) -> None:
    pytest.importorskip("datasketch")
    options: list[str | Path] = ["--documents", "1000", "--benchmark-results-path", tmp_path]
    subprocess.run([sys.executable, SUITE / "compare_minhash.py", *options], check=True, capture_output=True)
    metrics = json.loads((tmp_path / "metrics.json").read_text())
    for name in ("builtin_similarity", "datasketch_similarity"):
        assert metrics[name] == pytest.approx(metrics["expected_similarity"], abs=0.02)
    assert metrics["times_as_fast"] > 2
