"""Makes documents of 1,000 to 1,300 characters with duplicates planted in them: the same for the same size and seed.

Into OUT go the documents as jsonl/ and parquet/, ids/ to remove, and truth/: which documents are copies, and which are
alike by how much. It imports nothing beside it: a dataset is made anew when this file or its arguments change.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

SIZES = {"S": (4_000, 4), "M": (100_000, 20), "L": (1_000_000, 100)}
"""Documents and files."""

COPIES = 0.10
"""The share of documents that are copies of others."""
ALIKE = 0.04
"""The share of documents that are alike another, for each level."""
PERCENTS = (95, 90, 80, 60, 30)
"""The levels: how alike two documents are, as the Jaccard similarity of their n-grams."""
REMOVED = 0.15
"""The share of documents whose ids are to be removed."""
NGRAM = 24
IDS_PER_ROW_GROUP = 10_000

_VOCABULARY = 4_096
_CHARACTERS = (1_000, 1_300)
_ALPHABET = np.frombuffer("abcdefghijklmnopqrstuvwxyz".encode("utf-32-le"), "<u4")
_RARE_LETTERS = "éüßñøλжあ漢🙂"

Ids = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Plan:
    """For each document whose text it has, and how alike it is to that; 100 is the same, 0 a text of its own."""

    seed: int
    source: Ids
    percent: npt.NDArray[np.int8]


def make_plan(documents: int, seed: int) -> Plan:
    """Copies are of texts that nothing else was made of, so that what belongs together can be told."""
    order = np.random.default_rng(seed).permutation(documents)
    source, percent = np.arange(documents), np.zeros(documents, np.int8)
    alike, copies = round(ALIKE * documents), round(COPIES * documents)
    changed, rest = np.split(order, [alike * len(PERCENTS)])
    models, rest = np.split(rest, [len(changed)])
    source[changed], percent[changed] = models, np.repeat(PERCENTS, alike)
    copied, originals = np.split(rest, [copies])
    source[copied] = np.random.default_rng([seed, 1]).choice(originals[: max(1, copies // 2)], copies)
    percent[copied] = 100
    return Plan(seed, source, percent)


class Writer:
    """Writes the text of any document, whichever were written before."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._words = _vocabulary(plan.seed)

    def text(self, number: int) -> str:
        percent = int(self._plan.percent[number])
        own_text = self._original(int(self._plan.source[number]))
        return own_text if percent in (0, 100) else self._changed(own_text, percent, number)

    def _original(self, number: int) -> str:
        random = np.random.default_rng([self._plan.seed, 2, number])
        length = int(random.integers(*_CHARACTERS))
        choice = (random.random(length // 3) ** 2 * _VOCABULARY).astype(np.int64)
        return " ".join(self._words[choice])[:length]

    def _changed(self, text: str, percent: int, number: int) -> str:
        """With one passage garbled: as long a one as makes just so many n-grams others."""
        ngrams = len(text) - NGRAM + 1
        changed_ngrams = round(ngrams * (100 - percent) / (100 + percent))
        length = changed_ngrams - NGRAM + 1
        random = np.random.default_rng([self._plan.seed, 3, number])
        begin = int(random.integers(NGRAM - 1, ngrams - length))
        characters = np.frombuffer(text.encode("utf-32-le"), "<u4").copy()
        passage = characters[begin : begin + length]
        letters = random.integers(0, 26, length)
        letters = np.where(_ALPHABET[letters] == passage, (letters + 1) % 26, letters)
        passage[:] = _ALPHABET[letters]
        return characters.tobytes().decode("utf-32-le")


def jaccard_of_change(text: str, percent: int) -> float:
    """What `Writer` makes of a level, as whole n-grams allow."""
    ngrams = len(text) - NGRAM + 1
    changed = round(ngrams * (100 - percent) / (100 + percent))
    return (ngrams - changed) / (ngrams + changed)


def _vocabulary(seed: int) -> npt.NDArray[np.object_]:
    """Words of which the first are common; one in twenty is not plain ASCII, and some bring what JSON has to escape."""
    random = np.random.default_rng([seed, 4])
    words = ["".join(map(chr, random.integers(97, 123, random.integers(2, 11)))) for _ in range(_VOCABULARY)]
    for number in range(19, _VOCABULARY, 20):
        words[number] += _RARE_LETTERS[number // 20 % len(_RARE_LETTERS)]
    for number in range(37, _VOCABULARY, 500):
        words[number] += ('",', ".\n", "\\\t")[number % 3]
    return np.array(words, dtype=object)


def rows_of(plan: Plan, numbers: range) -> Iterator[dict[str, Any]]:
    writer = Writer(plan)
    for number in numbers:
        yield {"id": number, "url": f"https://www.example.org/{number % 97}/{number}", "text": writer.text(number)}


def write_file(plan: Plan, files: int, out: Path, number: int) -> None:
    """One of the files, in both formats."""
    begin, end = (len(plan.source) * step // files for step in (number, number + 1))
    rows = list(rows_of(plan, range(begin, end)))
    pq.write_table(pa.Table.from_pylist(rows), out / "parquet" / f"part-{number:05d}.parquet")
    with (out / "jsonl" / f"part-{number:05d}.jsonl").open("w", encoding="utf-8") as file:
        file.writelines(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)


def write_truth(plan: Plan, folder: Path) -> None:
    ids = np.arange(len(plan.source))
    first = plan.source.copy()
    is_copy = plan.percent == 100
    np.minimum.at(first, plan.source[is_copy], ids[is_copy])  # of a text and its copies the lowest id is kept
    kept = first[plan.source]
    in_group = is_copy | np.isin(ids, plan.source[is_copy])
    duplicate = in_group & (kept != ids)
    pq.write_table(pa.table({"id": ids[duplicate], "kept_id": kept[duplicate]}), folder / "exact.parquet")
    near = np.flatnonzero((plan.percent > 0) & ~is_copy)
    writer = Writer(plan)
    exact = [jaccard_of_change(writer.text(int(number)), int(plan.percent[number])) for number in near]
    columns = {"left": plan.source[near], "right": near, "percent": plan.percent[near], "jaccard": exact}
    pq.write_table(pa.table(columns), folder / "near.parquet")


def write_ids_to_remove(plan: Plan, folder: Path) -> None:
    documents = len(plan.source)
    chosen = np.random.default_rng([plan.seed, 5]).choice(documents, round(REMOVED * documents), replace=False)
    table = pa.table({"id": np.sort(chosen).astype(np.int64)})
    pq.write_table(table, folder / "part-00000.parquet", row_group_size=IDS_PER_ROW_GROUP)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--size", choices=sorted(SIZES), required=True)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()
    documents, files = SIZES[options.size]
    folders = {name: options.out / name for name in ("jsonl", "parquet", "ids", "truth")}
    for folder in folders.values():
        folder.mkdir(parents=True, exist_ok=True)
    plan = make_plan(documents, options.seed)
    with ProcessPoolExecutor() as pool:
        list(pool.map(partial(write_file, plan, files, options.out), range(files)))
    write_truth(plan, folders["truth"])
    write_ids_to_remove(plan, folders["ids"])


if __name__ == "__main__":
    main()
