"""Connected components of pairs of ids, with numpy: who is, directly or by others, joined to whom."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Ids = npt.NDArray[np.int64]


def components(left: Ids, right: Ids) -> tuple[Ids, Ids]:
    """All ids that occur in a pair, in order, and the smallest id of the component of each."""
    ids, ends = np.unique(np.concatenate([left, right]), return_inverse=True)
    begin, end = ends.reshape(2, -1)
    root = np.arange(len(ids))
    while len(begin):
        lower = np.minimum(root[begin], root[end])
        higher = np.maximum(root[begin], root[end])
        np.minimum.at(root, higher, lower)
        root = _followed_to_the_end(root)
        is_open = root[begin] != root[end]
        begin, end = begin[is_open], end[is_open]
    return ids, ids[root]


def _followed_to_the_end(root: npt.NDArray[np.intp]) -> npt.NDArray[np.intp]:
    while True:
        further = root[root]
        if np.array_equal(further, root):
            return root
        root = further
