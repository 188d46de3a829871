"""What was planted in documents made by make_corpus.py, and what is left of a removal, against what a script found."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
from components import components
from documents import ids_in

Ids = npt.NDArray[np.int64]
Metrics = dict[str, Any]


def compare_exact(truth: Path, duplicates: Path) -> Metrics:
    """Each duplicate together with the document that is kept for it, in both directions."""
    planted = _pairs(pq.read_table(truth / "exact.parquet"), "id", "kept_id")
    found = _pairs(ds.dataset(duplicates).to_table(), "id", "kept_id")
    return {
        "planted_duplicates": len(planted),
        "missed_duplicates": len(planted - found),
        "false_duplicates": len(found - planted),
    }


def compare_fuzzy(truth: Path, ids: Ids, firsts: Ids) -> Metrics:
    """Planted pairs that came into one component, by how much alike they are; and what came together without reason."""
    exact, near = pq.read_table(truth / "exact.parquet"), pq.read_table(truth / "near.parquet")
    first_of = dict(zip(ids.tolist(), firsts.tolist(), strict=True))
    metrics = {"recall_exact_copies": _recall(first_of, exact, "id", "kept_id"), "planted_pairs": near.num_rows}
    levels = near["percent"].to_numpy()
    for percent in np.unique(levels).tolist():
        metrics[f"recall_jaccard_{percent}"] = _recall(first_of, near.filter(levels == percent), "left", "right")
    return {**metrics, "false_duplicates": _joined_without_reason(exact, near, ids, firsts)}


def compare_removal(
    files: Sequence[Path], left: Sequence[Path], id_column: pa.Field, leave: pa.ChunkedArray
) -> Metrics:
    """What is left, read anew, against what should be."""
    before, after = ids_in(files, id_column), ids_in(left, id_column)
    expected = before[~np.isin(before, leave.to_numpy())]
    return {
        "wrongly_kept": len(np.setdiff1d(after, expected)),
        "wrongly_removed": len(np.setdiff1d(expected, after)),
        "in_order": bool(np.array_equal(after, expected)),
    }


def _pairs(table: pa.Table, left: str, right: str) -> set[tuple[int, int]]:
    return set(zip(table[left].to_pylist(), table[right].to_pylist(), strict=True))


def _recall(first_of: dict[int, int], pairs: pa.Table, left: str, right: str) -> float:
    planted = _pairs(pairs, left, right)
    together = sum(1 for one, other in planted if one in first_of and first_of[one] == first_of.get(other))
    return together / max(1, len(planted))


def _joined_without_reason(exact: pa.Table, near: pa.Table, ids: Ids, firsts: Ids) -> int:
    """Documents joined to one that nothing planted connects them with."""
    left = np.concatenate([exact["id"].to_numpy(), near["left"].to_numpy()])
    right = np.concatenate([exact["kept_id"].to_numpy(), near["right"].to_numpy()])
    planted = dict(zip(*(side.tolist() for side in components(left, right)), strict=True))
    pairs = zip(ids.tolist(), firsts.tolist(), strict=True)
    return sum(1 for one, first in pairs if planted.get(one, one) != planted.get(first, first))
