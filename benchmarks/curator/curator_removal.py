"""NeMo Curator's workflow that removes documents by their ids, and whether the right ones are left."""

from __future__ import annotations

import time
from pathlib import Path

import pyarrow.dataset as ds
from curator_script import (
    differing_texts,
    executor_of,
    parser_for_documents,
    read_documents,
    speed,
    write_results,
)
from nemo_curator.stages.text.deduplication.removal_workflow import TextDuplicatesRemovalWorkflow


def main() -> None:
    parser = parser_for_documents(__doc__)
    parser.add_argument("--ids-to-remove-path", type=Path, required=True, help="a folder of Parquet files")
    options = parser.parse_args()
    workflow = TextDuplicatesRemovalWorkflow(
        input_path=str(options.input_path),
        ids_to_remove_path=str(options.ids_to_remove_path),
        output_path=str(options.output_path),
        input_filetype=options.format,
        output_filetype=options.format,
        input_files_per_partition=1,
        id_field="id",
        duplicate_id_field="id",
    )
    begin = time.perf_counter()
    result = workflow.run(executor_of(options))
    seconds = time.perf_counter() - begin
    documents = read_documents(options.input_path, options.format)
    leave = set(ds.dataset(options.ids_to_remove_path).to_table()["id"].to_pylist())
    all_of_them = dict(zip(documents["id"].to_pylist(), documents["text"].to_pylist(), strict=True))
    expected = {number: text for number, text in all_of_them.items() if number not in leave}
    metrics = {
        "is_success": True,
        "num_removed": result.metadata["num_duplicates_removed"],
        "removed_share": result.metadata["num_duplicates_removed"] / documents.num_rows,
        "differing_documents": differing_texts(read_documents(options.output_path, options.format), expected),
        **speed(options, documents.num_rows, seconds),
    }
    write_results(options, metrics, [task for tasks in result.pipeline_tasks.values() for task in tasks])


if __name__ == "__main__":
    main()
