"""How many documents a second this folder's MinHash and datasketch's `update_batch` do, side by side on one core.

What counts is the processor's time, which others on the machine take nothing from. Theirs gets its n-grams ready made,
and only `update_batch` is timed; ours cuts its own. With that work counted, theirs is
`datasketch_with_ngrams_documents_per_s`.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from dedup_script import write_results
from minhash import MinHasher, MinHashSettings

Estimates = npt.NDArray[np.float64]
SLICE = 1_000
LETTERS = "abcdefghijklmnopqrstuvwxyz    "


class Builtin:
    """This folder's."""

    def __init__(self, settings: MinHashSettings) -> None:
        self._hasher = MinHasher(settings)
        self.seconds = 0.0

    def signatures(self, texts: Sequence[str]) -> npt.NDArray[Any]:
        begin = time.process_time()
        found = self._hasher.signatures(texts)
        self.seconds += time.process_time() - begin
        return found


class Datasketch:
    """The library's, as its documentation has it: the permutations are made once."""

    def __init__(self, settings: MinHashSettings) -> None:
        from datasketch import MinHash

        self._ngram = settings.ngram
        self._model = MinHash(num_perm=settings.permutations, seed=settings.seed)
        self.seconds = 0.0
        self.seconds_with_ngrams = 0.0

    def signatures(self, texts: Sequence[str]) -> npt.NDArray[Any]:
        return np.array([self._signature(text) for text in texts])

    def _signature(self, text: str) -> npt.NDArray[Any]:
        begin = time.process_time()
        ngrams = [text[start : start + self._ngram].encode() for start in range(len(text) - self._ngram + 1)]
        sketch = self._model.copy()
        ready = time.process_time()
        sketch.update_batch(ngrams)
        end = time.process_time()
        self.seconds += end - ready
        self.seconds_with_ngrams += end - begin
        digest: npt.NDArray[Any] = sketch.hashvalues
        return digest


def pairs_of_texts(count: int, characters: int) -> list[str]:
    """Each two that follow one another have the last half of their characters in common."""
    random = np.random.default_rng(seed=1)

    def some(length: int) -> str:
        return "".join(np.array(list(LETTERS))[random.integers(0, len(LETTERS), length)])

    texts: list[str] = []
    while len(texts) < count:
        shared = some(characters // 2)
        texts += [some(characters - len(shared)) + shared for _ in range(2)]
    return texts[:count]


def expected_similarity(characters: int, ngram: int) -> float:
    shared, all_of_one = characters // 2 - ngram + 1, characters - ngram + 1
    return shared / (2 * all_of_one - shared)


def similarity(signatures: npt.NDArray[Any]) -> float:
    return float(np.mean(signatures[0::2] == signatures[1::2]))


def on_one_core() -> None:
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})


def measure(texts: Sequence[str], settings: MinHashSettings) -> dict[str, Any]:
    """In slices, one of ours and one of theirs by turns, so that what slows the processor slows both."""
    builtin, datasketch = Builtin(settings), Datasketch(settings)
    engines: tuple[Callable[[Sequence[str]], npt.NDArray[Any]], ...] = (builtin.signatures, datasketch.signatures)
    for engine in engines:
        engine(texts[:10])
    builtin.seconds = datasketch.seconds = datasketch.seconds_with_ngrams = 0.0
    slices = [texts[start : start + SLICE] for start in range(0, len(texts), SLICE)]
    found = [[engine(part) for engine in engines] for part in slices]
    ours, theirs = (np.concatenate(parts) for parts in zip(*found, strict=True))
    return {
        "is_success": True,
        "num_documents": len(texts),
        "time_taken_s": builtin.seconds,
        "builtin_documents_per_s": len(texts) / builtin.seconds,
        "datasketch_documents_per_s": len(texts) / datasketch.seconds,
        "datasketch_with_ngrams_documents_per_s": len(texts) / datasketch.seconds_with_ngrams,
        "times_as_fast": datasketch.seconds / builtin.seconds,
        "expected_similarity": expected_similarity(len(texts[0]), settings.ngram),
        "builtin_similarity": similarity(ours),
        "datasketch_similarity": similarity(theirs),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--documents", type=int, default=20_000)
    parser.add_argument("--characters", type=int, default=1_000)
    parser.add_argument("--permutations", type=int, default=128)
    parser.add_argument("--ngram", type=int, default=24)
    parser.add_argument("--benchmark-results-path", type=Path, required=True)
    options = parser.parse_args()
    on_one_core()
    texts = pairs_of_texts(options.documents, options.characters)
    write_results(options, measure(texts, MinHashSettings(options.permutations, options.ngram)), [])


if __name__ == "__main__":
    main()
