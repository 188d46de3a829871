"""What the kernel of the dedup suite promises: honest signatures, candidates as theory has it, whole components."""

from __future__ import annotations

import random
import sys
import tracemalloc
from collections import defaultdict
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

SUITE = Path(__file__).parents[2] / "benchmarks" / "dedup"
sys.path.insert(0, str(SUITE))

from components import components  # noqa: E402
from lsh import band_keys, candidate_pairs, probability_of_candidacy  # noqa: E402
from minhash import MinHasher, MinHashSettings, Signatures, jaccard  # noqa: E402

WORDS = [f"{word}{number}" for number in range(200) for word in ("river", "bread", "harbour", "été", "天気")]


def signatures(texts: Sequence[str], **settings: int) -> Signatures:
    return MinHasher(MinHashSettings(**settings)).signatures(texts)


def ngrams(text: str, length: int) -> set[str]:
    return {text[start : start + length] for start in range(max(1, len(text) - length + 1))}


def true_jaccard(left: str, right: str, length: int) -> float:
    one, other = ngrams(left, length), ngrams(right, length)
    return len(one & other) / len(one | other)


def pair_alike(generator: random.Random, share: float) -> tuple[str, str]:
    """Two texts that begin alike; `share` is how much of each."""
    common = " ".join(generator.choices(WORDS, k=round(120 * share)))
    return tuple(f"{common} {' '.join(generator.choices(WORDS, k=round(120 * (1 - share))))}" for _ in range(2))  # type: ignore[return-value]


# --- signatures ------------------------------------------------------------------------------------------------------


@given(st.lists(st.text(max_size=80), max_size=12), st.integers(1, 9), st.integers(9, 60))
def test_a_signature_is_the_smallest_of_those_of_its_ngrams_however_texts_are_cut_into_blocks(
    texts: list[str], ngram: int, block: int
) -> None:
    found = signatures(texts, ngram=ngram, permutations=8, block_characters=block)
    for text, signature in zip(texts, found, strict=True):
        alone = signatures(sorted(ngrams(text, ngram)), ngram=ngram, permutations=8)
        assert signature.tolist() == alone.min(axis=0).tolist()


def pairs_of_natural_texts() -> list[tuple[str, str]]:
    generator = random.Random(1)
    return [pair_alike(generator, share) for share in np.linspace(0.1, 0.98, 60)]


def pairs_of_numbered_rows() -> list[tuple[str, str]]:
    rows = [f"row {number}: {number * number}\n" for number in range(60)]
    return [("".join(rows[:end]), "".join(rows[5:])) for end in range(20, 60)]


def pairs_of_alphabets() -> list[tuple[str, str]]:
    """Characters that follow one another, each an n-gram: hashed without care, they make an arithmetic progression."""
    signs = "".join(map(chr, range(0x4E00, 0x4E00 + 400)))
    return [(signs[:end], signs[100:]) for end in range(150, 400, 5)]


@pytest.mark.parametrize(
    ("pairs", "ngram"), [(pairs_of_natural_texts(), 7), (pairs_of_numbered_rows(), 7), (pairs_of_alphabets(), 1)]
)
def test_the_estimate_is_unbiased_and_varies_as_independent_permutations_would(
    pairs: list[tuple[str, str]], ngram: int
) -> None:
    truth = np.array([true_jaccard(left, right, ngram) for left, right in pairs])
    deviation = np.sqrt(truth * (1 - truth) / 128)
    errors = np.stack([estimates(pairs, ngram, seed) - truth for seed in range(60)])
    by_pair = errors.mean(axis=0) / (deviation / np.sqrt(len(errors)))
    assert np.abs(by_pair).max() < 5
    by_seed = errors.mean(axis=1)  # pairs share permutations; the seeds alone are independent
    assert abs(by_seed.mean()) < 4 * by_seed.std() / np.sqrt(len(by_seed))
    assert 0.8 < (errors**2).mean() / (deviation**2).mean() < 1.25


def estimates(pairs: Sequence[tuple[str, str]], ngram: int, seed: int) -> Any:
    left, right = zip(*pairs, strict=True)
    return jaccard(signatures(left, ngram=ngram, seed=seed), signatures(right, ngram=ngram, seed=seed))


def test_a_text_without_characters_resembles_nothing_and_a_short_one_only_its_like() -> None:
    found = signatures(["", "", "ab", "ab", "ba", "a" * 24])
    assert jaccard(found[[0, 2, 2, 2]], found[[1, 3, 4, 5]]).tolist() == [0, 1, 0, 0]


def test_what_is_no_proper_unicode_is_text_too() -> None:
    found = signatures(["\ud800 half of a pair " * 3, "\ud801 half of a pair " * 3, "\ud800 half of a pair " * 3])
    assert jaccard(found[[0, 0]], found[[1, 2]]).tolist()[1] == 1
    assert jaccard(found[0], found[1]) < 1


def test_memory_does_not_grow_with_the_length_of_a_text_or_their_number() -> None:
    hasher = MinHasher(MinHashSettings(permutations=16))
    assert peak_bytes(partial(hasher.signatures, ["some text " * 600_000])) < 8_000_000
    texts = ["some text " * 100] * 6_000
    assert peak_bytes(partial(hasher.signatures, texts)) < 8_000_000


def peak_bytes(work: Callable[[], object]) -> int:
    work()
    tracemalloc.start()
    try:
        work()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("wrong", [{"permutations": 0}, {"ngram": 0}, {"block_characters": 23}])
def test_settings_that_make_no_signature_are_refused(wrong: dict[str, int]) -> None:
    with pytest.raises(ValueError, match="n-gram"):
        MinHashSettings(**wrong)


# --- bands and components --------------------------------------------------------------------------------------------


def test_pairs_become_candidates_as_often_as_their_similarity_says() -> None:
    generator = random.Random(2)
    pairs = [pair_alike(generator, share) for share in np.linspace(0.55, 0.97, 80)]
    left, right = zip(*pairs, strict=True)
    expected = [probability_of_candidacy(true_jaccard(*pair, 24), 128, 16) for pair in pairs]
    shares = []
    for seed in range(40):
        keys = [band_keys(signatures(side, seed=seed), 16) for side in (left, right)]
        shares.append(float((keys[0] == keys[1]).any(axis=1).mean()))
    assert 0.2 < np.mean(expected) < 0.8
    assert abs(np.mean(shares) - np.mean(expected)) < 4 * np.std(shares) / np.sqrt(len(shares))


def test_equal_numbers_in_another_band_are_another_key() -> None:
    same = np.full((3, 8), 7, np.uint32)
    keys = band_keys(same, 4)
    assert len(np.unique(keys)) == 4
    assert (keys[0] == keys[2]).all()


def test_bands_have_to_use_every_permutation() -> None:
    with pytest.raises(ValueError, match="128 permutations cannot be cut into 20 bands"):
        band_keys(np.zeros((1, 128), np.uint32), 20)


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 30)), max_size=60))
def test_candidate_pairs_connect_all_who_share_a_key_and_nobody_else(rows: list[tuple[int, int]]) -> None:
    keys = np.array([key for key, _ in rows], np.uint64)
    ids = np.array([number for _, number in rows], np.int64)
    by_key: dict[int, list[int]] = defaultdict(list)
    for key, number in rows:
        by_key[key].append(number)
    edges = [(group[0], other) for group in by_key.values() for other in group[1:] if other != group[0]]
    left, right = candidate_pairs(keys, ids)
    pairs = [(one, other) for one, other in zip(left.tolist(), right.tolist(), strict=True) if one != other]
    assert united(pairs) == united(edges)


@given(st.lists(st.tuples(st.integers(0, 40), st.integers(0, 40)), max_size=80))
def test_components_are_those_of_joining_one_pair_after_the_other(pairs: list[tuple[int, int]]) -> None:
    left, right = np.array(pairs, np.int64).reshape(-1, 2).T
    ids, firsts = components(left, right)
    assert dict(zip(ids.tolist(), firsts.tolist(), strict=True)) == united(pairs)


def test_a_long_chain_in_any_order_is_one_component() -> None:
    order = np.random.default_rng(3).permutation(100_000)
    ids, firsts = components(order[:-1], order[1:])
    assert len(ids) == 100_000
    assert not firsts.any()


def united(pairs: Sequence[tuple[int, int]]) -> dict[int, int]:
    """The smallest of each component, by relabelling everything at every pair."""
    first = {number: number for pair in pairs for number in pair}
    for one, other in pairs:
        low, high = sorted((first[one], first[other]))
        first = {number: low if label == high else label for number, label in first.items()}
    return first
