"""NeMo Curator's workflows that find duplicates, exact or fuzzy, on GPUs: how many they find of those planted."""

from __future__ import annotations

import argparse
import time
from typing import Any

from curator_script import executor_of, parser_for_documents, read_documents, speed, write_results


def exact(options: argparse.Namespace) -> Any:
    from nemo_curator.stages.deduplication.exact.workflow import ExactDeduplicationWorkflow

    return ExactDeduplicationWorkflow(
        input_path=str(options.input_path),
        output_path=str(options.output_path),
        input_filetype=options.format,
        input_blocksize=options.blocksize,
        assign_id=False,
        id_field="id",
    )


def fuzzy(options: argparse.Namespace) -> Any:
    """16 bands of 8, as in the suite `dedup`."""
    from nemo_curator.stages.deduplication.fuzzy.workflow import FuzzyDeduplicationWorkflow

    return FuzzyDeduplicationWorkflow(
        input_path=str(options.input_path),
        cache_path=str(options.output_path / "cache"),
        output_path=str(options.output_path),
        input_filetype=options.format,
        input_blocksize=options.blocksize,
        num_bands=16,
        minhashes_per_band=8,
        bands_per_iteration=16,
    )


WORKFLOWS = {"exact": exact, "fuzzy": fuzzy}


def main() -> None:
    parser = parser_for_documents(__doc__)
    parser.add_argument("--method", choices=sorted(WORKFLOWS), required=True)
    parser.add_argument("--blocksize", default="64MiB", help="how much of the input a task reads")
    options = parser.parse_args()
    begin = time.perf_counter()
    result = WORKFLOWS[options.method](options).run(executor=executor_of(options))
    seconds = time.perf_counter() - begin
    documents = read_documents(options.input_path, options.format).num_rows
    metrics = {
        "is_success": True,
        "duplicates_found": result.metadata["num_duplicates"],
        "duplicate_share": result.metadata["num_duplicates"] / documents,
        **speed(options, documents, seconds),
    }
    write_results(options, metrics, [task for tasks in result.pipeline_tasks.values() for task in tasks])


if __name__ == "__main__":
    main()
