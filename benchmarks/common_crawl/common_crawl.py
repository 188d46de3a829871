"""From a web crawl to texts: list the crawl's files, download them, read their records, write the text of each page.

Without --base-url it serves --crawl-path, a folder laid out as a crawl is, on loopback; with it, it goes to a server:

    python common_crawl.py --base-url https://data.commoncrawl.org/ --crawl CC-MAIN-2024-51 --url-limit 2 …

Files that stand in --download-path already are not downloaded again, and those that are not whole are gone on with.
"""

from __future__ import annotations

import argparse
import gzip
import json
import logging
import pickle
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import crawl_truth
import ray.data
from crawl_pipeline import WRITERS, Downloaded, FileDone, Settings, curate_file, fetch_file
from crawl_server import serving
from downloads import Patience, download, file_name
from ray import cloudpickle

MEGABYTE = 1_000_000
WARC_SUFFIX = ".warc.gz"
# A download waits for the network most of the time, so two share a CPU.
CPUS_OF_A_DOWNLOAD = 0.5
Metrics = dict[str, Any]


def list_paths(options: argparse.Namespace, base_url: str) -> list[str]:
    """The crawl's list of its files: a path on each line."""
    url = f"{base_url}crawl-data/{options.crawl}/warc.paths.gz"
    found = download(url, options.download_path, patience_of(options))
    if found.path is None:
        sys.exit(f"{url}: {found.problem}")
    paths = gzip.decompress(found.path.read_bytes()).decode("utf-8").split()
    return paths[: options.url_limit]


def patience_of(options: argparse.Namespace) -> Patience:
    return Patience(options.tries, options.timeout_s)


def process(settings: Settings, paths: Sequence[str]) -> list[FileDone]:
    """While a file is read, the next ones are downloaded."""
    dataset = ray.data.from_items([_row(path) for path in paths], override_num_blocks=max(1, len(paths)))
    fetched = dataset.map(_on_rows(partial(fetch_file, settings)), num_cpus=CPUS_OF_A_DOWNLOAD)
    done = fetched.map(_on_rows(partial(curate_file, settings)), num_cpus=1)
    return [cloudpickle.loads(row["value"]) for row in done.take_all()]


def _on_rows(work: Callable[[Any], Any]) -> Callable[[dict[str, Any]], dict[str, Any]]:
    return lambda row: _row(work(cloudpickle.loads(row["value"])))


def _row(value: str | Downloaded | FileDone) -> dict[str, Any]:
    return {"value": cloudpickle.dumps(value)}


@contextmanager
def connected() -> Iterator[None]:
    """To the cluster of RAY_ADDRESS, with workers that have started: what is measured afterwards is the work."""
    ray.init(logging_level=logging.WARNING, log_to_driver=False)
    try:
        ray.data.DataContext.get_current().enable_progress_bars = False
        logging.getLogger("ray.data").setLevel(logging.ERROR)
        workers = max(1, int(ray.cluster_resources().get("CPU", 1)))
        ray.data.range(workers, override_num_blocks=workers).map(_bring_to_life).take_all()
        yield
    finally:
        ray.shutdown()


def _bring_to_life(row: dict[str, Any]) -> dict[str, Any]:
    import pyarrow.parquet  # noqa: F401

    return row


def metrics_of(done: Sequence[FileDone], seconds: float) -> Metrics:
    failed = [file.download for file in done if file.download.path is None]
    files = max(1, len(done) - len(failed))
    size, received = sum(file.size for file in done), sum(file.download.received_bytes for file in done)
    broken = sum(file.tally.broken for file in done)
    documents = sum(file.tally.documents for file in done)
    return {
        "is_success": not failed,
        "time_taken_s": seconds,
        "num_urls": len(done),
        "failed_downloads": len(failed),
        "resumed_share": sum(1 for file in done if file.download.resumed) / files,
        "downloaded_mb": received / MEGABYTE,
        "downloaded_share": received / max(1, size),
        "warc_mb": size / MEGABYTE,
        "num_records": sum(file.tally.records for file in done),
        "num_broken_records": broken,
        "broken_records_per_file": broken / files,
        "num_documents": documents,
        "num_characters": sum(file.tally.characters for file in done),
        "documents_per_s": documents / seconds,
        "mb_per_s": size / MEGABYTE / seconds,
    }


def tell_problems(done: Sequence[FileDone]) -> None:
    for file in done:
        name = file_name(file.download.url)
        for problem in (file.download.problem, *file.tally.reasons):
            if problem:
                print(f"{name}: {problem}")


def write_results(options: argparse.Namespace, metrics: Metrics, done: Sequence[FileDone]) -> None:
    """The three files of the script contract."""
    folder: Path = options.benchmark_results_path
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "params.json").write_text(json.dumps(vars(options), indent=2, default=str))
    (folder / "metrics.json").write_text(json.dumps(metrics, indent=2))
    (folder / "tasks.pkl").write_bytes(pickle.dumps([file.as_task() for file in done]))
    print(json.dumps(metrics, indent=2))


def parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--base-url", help="the server of the crawl")
    parser.add_argument("--crawl-path", type=Path, help="a folder to serve instead")
    parser.add_argument("--crawl", default="CC-MAIN-0000-00", help="which crawl of the server")
    parser.add_argument("--url-limit", type=int, help="at most so many of its files")
    parser.add_argument("--download-path", type=Path, required=True)
    parser.add_argument("--output-path", type=Path, required=True)
    parser.add_argument("--output-format", choices=sorted(WRITERS), default="parquet")
    parser.add_argument("--tries", type=int, default=5, help="at each file")
    parser.add_argument("--timeout-s", type=float, default=60, help="how long an answer may keep silent")
    parser.add_argument("--interrupt", action="store_true", help="have our own server break off each file once")
    parser.add_argument("--truth-path", type=Path, help="what the pages hold, where they were made for this")
    parser.add_argument("--benchmark-results-path", type=Path, required=True)
    options = parser.parse_args()
    if (options.base_url is None) == (options.crawl_path is None):
        parser.error("either --base-url or --crawl-path is needed")
    for name in ("download_path", "output_path"):
        setattr(options, name, getattr(options, name).resolve())
    return options


@contextmanager
def base_url_of(options: argparse.Namespace) -> Iterator[str]:
    if options.base_url:
        yield options.base_url.rstrip("/") + "/"
        return
    with serving(options.crawl_path, interrupt=WARC_SUFFIX if options.interrupt else None) as base_url:
        yield base_url


def main() -> None:
    options = parsed()
    with base_url_of(options) as base_url, connected():
        begin = time.perf_counter()
        paths = list_paths(options, base_url)
        done = process(
            Settings(base_url, options.download_path, options.output_path, options.output_format, patience_of(options)),
            paths,
        )
        seconds = time.perf_counter() - begin
    metrics = metrics_of(done, seconds)
    if options.truth_path:
        metrics |= crawl_truth.compare(options.truth_path, options.output_path, options.output_format, done)
    tell_problems(done)
    write_results(options, metrics, done)


if __name__ == "__main__":
    main()
