"""MinHash signatures of texts over their character n-grams, with numpy, a block of texts at a time.

An n-gram is hashed to an odd number by a rolling polynomial over its characters. A permutation is `a·h` modulo 2³² with
an odd `a`: it takes each odd number to any other just as often. What is kept of a text under each permutation is the
smallest number any of its n-grams becomes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Signatures = npt.NDArray[np.uint32]
"""A row for each text, a column for each permutation."""

NOTHING = np.uint32(0xFFFFFFFF)
"""The signature of a text without characters: it resembles no other, not even its like."""

_BASE = 0x9E3779B97F4A7C15
_INVERSE_BASE = pow(_BASE, -1, 2**64)
_SPREAD = np.uint64(0xD6E8FEB86659FD93)
"""Without this factor the first character of an n-gram would only reach the lowest bits of its hash."""
_PADDING = "\0"
_Piece = tuple[int, str]


@dataclass(frozen=True, slots=True)
class MinHashSettings:
    """What decides a signature, and how many characters are worked on at once."""

    permutations: int = 128
    ngram: int = 24
    seed: int = 1
    block_characters: int = 65_536

    def __post_init__(self) -> None:
        if self.permutations < 1 or self.ngram < 1:
            raise ValueError("a signature needs at least one permutation, and n-grams at least one character")
        if self.block_characters < self.ngram:
            raise ValueError(f"a block of {self.block_characters} characters holds no n-gram of {self.ngram}")


class MinHasher:
    """Makes signatures. The memory it works in is the same however long the texts are, and however many.

    It is not for several threads at once: they would work in the same memory.
    """

    def __init__(self, settings: MinHashSettings) -> None:
        self._settings = settings
        random = np.random.default_rng(settings.seed)
        self._factors = random.integers(0, 2**32, settings.permutations, dtype=np.uint32) | np.uint32(1)
        self._powers = _powers(_BASE, settings.block_characters)
        self._inverse_powers = _powers(_INVERSE_BASE, settings.block_characters) * _SPREAD
        self._sums = np.zeros(settings.block_characters + 1, np.uint64)
        self._products = np.empty(settings.block_characters, np.uint64)
        self._permuted = np.empty(settings.block_characters, np.uint32)

    def signatures(self, texts: Sequence[str]) -> Signatures:
        found = np.full((len(texts), self._settings.permutations), NOTHING)
        for block in _blocks(self._pieces(texts), self._settings.block_characters):
            rows = [row for row, _ in block]
            found[rows] = np.minimum(found[rows], self._signatures_of_block([piece for _, piece in block]))
        return found

    def _pieces(self, texts: Iterable[str]) -> Iterator[_Piece]:
        """Texts with their rows. Those longer than a block come in pieces that have all of their n-grams."""
        ngram, longest = self._settings.ngram, self._settings.block_characters
        for row, text in enumerate(texts):
            if len(text) > longest:
                starts = range(0, len(text) - ngram + 1, longest - ngram + 1)
                yield from ((row, text[start : start + longest]) for start in starts)
            elif text:
                yield row, text.ljust(ngram, _PADDING)  # a text shorter than an n-gram is one

    def _signatures_of_block(self, pieces: Sequence[str]) -> Signatures:
        lengths = np.fromiter(map(len, pieces), np.int64, len(pieces))
        counts = lengths - self._settings.ngram + 1
        hashes = self._ngram_hashes("".join(pieces), np.cumsum(lengths) - lengths, counts)
        first_hashes = np.cumsum(counts) - counts
        permuted = self._permuted[: len(hashes)]
        found = np.empty((self._settings.permutations, len(pieces)), np.uint32)
        for smallest, factor in zip(found, self._factors, strict=True):
            np.multiply(hashes, factor, out=permuted)
            np.minimum.reduceat(permuted, first_hashes, out=smallest)
        return found.T

    def _ngram_hashes(
        self, text: str, starts: npt.NDArray[np.int64], counts: npt.NDArray[np.int64]
    ) -> npt.NDArray[np.uint32]:
        """The hashes of `counts` n-grams from each of `starts`: of those within a piece, not across two."""
        windows = self._window_hashes(text)
        parts = [windows[start : start + count] for start, count in zip(starts.tolist(), counts.tolist(), strict=True)]
        return _mixed(np.concatenate(parts))

    def _window_hashes(self, text: str) -> npt.NDArray[np.uint32]:
        """Of every n-gram of the text, the upper half of Σ character·base^position, as if it stood at its beginning."""
        characters = np.frombuffer(text.encode("utf-32-le", "surrogatepass"), "<u4")
        count = len(characters) - self._settings.ngram + 1
        products, sums = self._products[: len(characters)], self._sums[: len(characters) + 1]
        np.multiply(characters, self._powers[: len(characters)], out=products)
        np.cumsum(products, out=sums[1:])
        hashes = np.subtract(sums[self._settings.ngram :], sums[:count], out=products[:count])
        hashes *= self._inverse_powers[:count]
        hashes >>= np.uint64(32)
        return hashes.astype(np.uint32)


def jaccard(left: Signatures, right: Signatures) -> npt.NDArray[np.float64]:
    """An unbiased estimate of how alike the n-grams of two texts are, row by row."""
    return np.asarray(np.mean((left == right) & (left != NOTHING), axis=-1), np.float64)


def _powers(base: int, count: int) -> npt.NDArray[np.uint64]:
    factors = np.full(count, base, np.uint64)
    factors[0] = 1
    return np.cumprod(factors)


def _blocks(pieces: Iterable[_Piece], most_characters: int) -> Iterator[list[_Piece]]:
    """As many pieces at a time as stay within so many characters. No row comes twice in one block."""
    block: list[_Piece] = []
    characters = 0
    for row, piece in pieces:
        if block and characters + len(piece) > most_characters:
            yield block
            block, characters = [], 0
        block.append((row, piece))
        characters += len(piece)
    if block:
        yield block


def _mixed(hashes: npt.NDArray[np.uint32]) -> npt.NDArray[np.uint32]:
    """In place, and not linear: texts that follow a pattern must not become numbers that do. All are odd afterwards."""
    shifted = np.empty_like(hashes)
    for shift, factor in ((16, 0x7FEB352D), (15, 0x846CA68B)):
        np.right_shift(hashes, np.uint32(shift), out=shifted)
        hashes ^= shifted
        hashes *= np.uint32(factor)
    np.right_shift(hashes, np.uint32(16), out=shifted)
    hashes ^= shifted
    hashes |= np.uint32(1)
    return hashes
