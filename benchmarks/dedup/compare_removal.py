"""How long `removal.py` and NeMo Curator's workflow take to remove the same ids from the same files, by turns.

Both use Ray Data. What counts is all of it: connecting to the cluster, the work, and closing the connection.
"""

from __future__ import annotations

import argparse
import shutil
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import pyarrow as pa
import removal
from dedup_script import MEGABYTE, empty_folder, write_results
from documents import FORMATS, document_files, ids_in
from executors import connected

ID_FIELD = "id"


def remove_with_builtin(options: argparse.Namespace, output: Path) -> int:
    output.mkdir()
    settings = removal.Settings(ID_FIELD, options.ids_to_remove_path, ID_FIELD, output)
    with connected("ray_data") as executor:
        work = partial(removal.remove_from_file, settings)
        return sum(file.removed for file in executor.run(work, document_files(options.input_path, options.format)))


def remove_with_nemo_curator(options: argparse.Namespace, output: Path) -> int:
    from nemo_curator.backends.ray_data import RayDataExecutor
    from nemo_curator.stages.text.deduplication.removal_workflow import TextDuplicatesRemovalWorkflow

    workflow = TextDuplicatesRemovalWorkflow(
        input_path=str(options.input_path),
        ids_to_remove_path=str(options.ids_to_remove_path),
        output_path=str(output),
        input_filetype=options.format,
        output_filetype=options.format,
        input_files_per_partition=1,
        id_field=ID_FIELD,
        duplicate_id_field=ID_FIELD,
    )
    result = workflow.run(RayDataExecutor())
    return int(result.metadata["num_duplicates_removed"])


ENGINES: dict[str, Callable[[argparse.Namespace, Path], int]] = {
    "builtin": remove_with_builtin,
    "nemo_curator": remove_with_nemo_curator,
}


def measure(options: argparse.Namespace, scratch: Path) -> dict[str, Any]:
    seconds: dict[str, list[float]] = {name: [] for name in ENGINES}
    differing = 0
    for number in range(options.rounds + 1):  # the first, which imports the libraries, does not count
        left = {}
        for name, remove in ENGINES.items():
            output = scratch / name
            begin = time.perf_counter()
            remove(options, output)
            seconds[name] += [time.perf_counter() - begin] if number else []
            left[name] = np.sort(ids_in(document_files(output, options.format), pa.field(ID_FIELD, pa.int64())))
            shutil.rmtree(output)
        differing += len(np.setxor1d(left["builtin"], left["nemo_curator"]))
    return {**speeds(options, seconds), "differing_documents": differing}


def speeds(options: argparse.Namespace, seconds: dict[str, list[float]]) -> dict[str, Any]:
    size = sum(file.stat().st_size for file in document_files(options.input_path, options.format))
    pairs = zip(seconds["nemo_curator"], seconds["builtin"], strict=True)
    return {
        "is_success": True,
        "times_as_fast": median(theirs / ours for theirs, ours in pairs),
        **{f"{name}_s": median(taken) for name, taken in seconds.items()},
        **{f"{name}_mb_per_s": size / MEGABYTE / median(taken) for name, taken in seconds.items()},
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--input-path", type=Path, required=True)
    parser.add_argument("--format", choices=FORMATS, required=True)
    parser.add_argument("--ids-to-remove-path", type=Path, required=True, help="a folder of Parquet files")
    parser.add_argument("--output-path", type=Path, required=True, help="an empty folder, or one to be made")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--benchmark-results-path", type=Path, required=True)
    options = parser.parse_args()
    write_results(options, measure(options, empty_folder(options.output_path)), [])


if __name__ == "__main__":
    main()
