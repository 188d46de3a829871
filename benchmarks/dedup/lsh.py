"""Locality-sensitive hashing of signatures: texts that agree in a whole band of their signatures are candidates."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from minhash import NOTHING, Signatures

Keys = npt.NDArray[np.uint64]
Ids = npt.NDArray[np.int64]


def band_keys(signatures: Signatures, bands: int) -> Keys:
    """A key for each text and band. Equal keys are equal bands, of the same place in the signature."""
    permutations = signatures.shape[1]
    if bands < 1 or permutations % bands:
        raise ValueError(f"{permutations} permutations cannot be cut into {bands} bands of the same length")
    rows = permutations // bands
    weights = np.random.default_rng(bands).integers(0, 2**64, (bands, rows), dtype=np.uint64) | np.uint64(1)
    keys = np.empty((len(signatures), bands), np.uint64)
    for band in range(bands):
        values = signatures[:, band * rows : (band + 1) * rows]
        keys[:, band] = (values * weights[band]).sum(axis=1, dtype=np.uint64)
    return _mixed(keys)


def has_signature(signatures: Signatures) -> npt.NDArray[np.bool_]:
    """Which texts have n-grams at all."""
    return np.asarray((signatures != NOTHING).any(axis=1), np.bool_)


def candidate_pairs(keys: Keys, ids: Ids) -> tuple[Ids, Ids]:
    """Texts with the same key, each joined to the next by id. Enough to connect all of them, and few."""
    order = np.lexsort((ids, keys))
    keys, ids = keys[order], ids[order]
    same = keys[1:] == keys[:-1]
    pairs = np.unique(np.stack([ids[:-1][same], ids[1:][same]], axis=1), axis=0)
    return pairs[:, 0], pairs[:, 1]


def probability_of_candidacy(jaccard: float, permutations: int, bands: int) -> float:
    """How likely two texts that are so much alike agree in at least one band."""
    return float(1 - (1 - jaccard ** (permutations // bands)) ** bands)


def _mixed(keys: Keys) -> Keys:
    """One to one, and such that any bits of a key may choose its partition."""
    for shift, factor in ((33, 0xFF51AFD7ED558CCD), (33, 0xC4CEB9FE1A85EC53)):
        keys ^= keys >> np.uint64(shift)
        keys *= np.uint64(factor)
    keys ^= keys >> np.uint64(33)
    return keys
