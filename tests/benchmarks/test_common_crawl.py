"""What the common_crawl suite promises: downloads resume, and on Ray every page that was put there is found."""

from __future__ import annotations

import gzip
import os
import pickle
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

import pyarrow.parquet as pq
import pytest
import yaml
from made_data import contents, make
from scripts_on_ray import metrics_of, small_cluster

from curator_bench.cluster.environment import without_ray
from curator_bench.cluster.model import Cluster

ROOT = Path(__file__).parents[2]
SUITE = ROOT / "benchmarks" / "common_crawl"
GENERATOR = SUITE / "make_crawl.py"
sys.path.insert(0, str(SUITE))

import make_crawl  # noqa: E402
from crawl_pipeline import Settings, curate_file, fetch_file  # noqa: E402
from crawl_server import serving  # noqa: E402
from downloads import Download, Patience, download, file_name  # noqa: E402
from make_crawl import BROKEN  # noqa: E402

QUICK = Patience(tries=3, timeout_s=10, wait_s=0.01)


# --- downloads -------------------------------------------------------------------------------------------------------

CONTENT = bytes(range(256)) * 4_000


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "root" / "a"
    folder.mkdir(parents=True)
    (folder / "b.warc.gz").write_bytes(CONTENT)
    (tmp_path / "secret").write_text("not to be served")
    return tmp_path / "root"


def test_an_interrupted_download_goes_on_where_it_broke_off(root: Path, tmp_path: Path) -> None:
    with serving(root, interrupt=".gz") as base_url:
        found = download(base_url + "a/b.warc.gz", tmp_path / "d", QUICK)
    assert found == Download(base_url + "a/b.warc.gz", tmp_path / "d" / "a-b.warc.gz", len(CONTENT), resumed=1)
    assert [file.read_bytes() for file in (tmp_path / "d").iterdir()] == [CONTENT]


def test_what_an_earlier_run_left_is_gone_on_with_and_what_is_there_is_not_asked_for(
    root: Path, tmp_path: Path
) -> None:
    once = Patience(tries=1)
    with serving(root, interrupt=".gz") as base_url:
        first = download(base_url + "a/b.warc.gz", tmp_path / "d", once)
        second = download(base_url + "a/b.warc.gz", tmp_path / "d", once)
    third = download(base_url + "a/b.warc.gz", tmp_path / "d", once)
    assert first.path is None
    assert "512,000 of 1,024,000 bytes" in first.problem
    assert (second.received_bytes, second.resumed) == (512_000, 1)
    assert second.path is not None
    assert second.path.read_bytes() == CONTENT
    assert (third.path, third.received_bytes) == (second.path, 0)


def test_parts_of_two_files_are_never_put_together(root: Path, tmp_path: Path) -> None:
    with serving(root, interrupt=".gz") as base_url:
        download(base_url + "a/b.warc.gz", tmp_path / "d", Patience(tries=1))
        (root / "a" / "b.warc.gz").write_bytes(CONTENT[::-1])
        found = download(base_url + "a/b.warc.gz", tmp_path / "d", QUICK)
    assert found.path is not None
    assert found.path.read_bytes() == CONTENT[::-1]
    assert found.resumed == 0


def test_a_part_that_was_whole_already_is_taken(root: Path, tmp_path: Path) -> None:
    with serving(root, interrupt=".gz") as base_url:
        download(base_url + "a/b.warc.gz", tmp_path / "d", Patience(tries=1))
        (tmp_path / "d" / "a-b.warc.gz.part").write_bytes(CONTENT)
        found = download(base_url + "a/b.warc.gz", tmp_path / "d", QUICK)
    assert (found.problem, found.received_bytes) == ("", 0)
    assert found.path is not None
    assert found.path.read_bytes() == CONTENT


def test_a_part_longer_than_the_file_is_thrown_away(root: Path, tmp_path: Path) -> None:
    with serving(root, interrupt=".gz") as base_url:
        download(base_url + "a/b.warc.gz", tmp_path / "d", Patience(tries=1))
        (tmp_path / "d" / "a-b.warc.gz.part").write_bytes(CONTENT + b"more")
        found = download(base_url + "a/b.warc.gz", tmp_path / "d", QUICK)
    assert found.path is not None
    assert found.path.read_bytes() == CONTENT


def test_what_is_not_there_is_asked_for_once_and_leaves_nothing(root: Path, tmp_path: Path) -> None:
    with serving(root) as base_url:
        for path in ("missing", "a", "../secret", "%2e%2e/secret"):
            found = download(base_url + path, tmp_path / "d", QUICK)
            assert (found.path, found.problem) == (None, "the server answered 404 Not Found")
    assert list((tmp_path / "d").iterdir()) == []


@contextmanager
def scripted_server(*answers: tuple[int, dict[str, str], bytes]) -> Iterator[tuple[str, list[dict[str, str]]]]:
    """Gives these answers, the last one for ever; and the headers of what was asked."""
    asked: list[dict[str, str]] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            status, headers, body = answers[min(len(asked), len(answers) - 1)]
            asked.append({name.lower(): value for name, value in self.headers.items()})
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}/file", asked
        finally:
            server.shutdown()
            thread.join()


def test_a_server_that_is_busy_is_asked_again(tmp_path: Path) -> None:
    whole = (200, {"Content-Length": "3"}, b"abc")
    with scripted_server((503, {}, b""), (429, {}, b""), whole) as (url, asked):
        found = download(url, tmp_path, QUICK)
    assert (found.problem, len(asked)) == ("", 3)
    with scripted_server((503, {}, b"")) as (url, asked):
        found = download(url, tmp_path / "other", QUICK)
    assert (found.path, found.problem, len(asked)) == (None, "the server answered 503 Service Unavailable", 3)


@pytest.mark.parametrize("headers", [{}, {"ETag": 'W/"weak"'}])
def test_a_file_without_a_strong_tag_is_begun_anew(tmp_path: Path, headers: dict[str, str]) -> None:
    length = {"Content-Length": "6"}
    with scripted_server((200, headers | length, b"abc"), (200, headers | length, b"uvwxyz")) as (url, asked):
        found = download(url, tmp_path, QUICK)
    assert found.path is not None
    assert found.path.read_bytes() == b"uvwxyz"
    assert "range" not in asked[1]


def test_an_answer_for_another_range_is_not_added(tmp_path: Path) -> None:
    first = (200, {"ETag": '"1"', "Content-Length": "6"}, b"abc")
    wrong = (206, {"ETag": '"1"', "Content-Length": "6", "Content-Range": "bytes 0-5/6"}, b"abcdef")
    right = (206, {"ETag": '"1"', "Content-Length": "3", "Content-Range": "bytes 3-5/6"}, b"def")
    with scripted_server(first, wrong, right) as (url, asked):
        found = download(url, tmp_path, QUICK)
    assert found.path is not None
    assert found.path.read_bytes() == b"abcdef"
    assert asked[1]["range"] == asked[2]["range"] == "bytes=3-"
    assert asked[2]["if-range"] == '"1"'


def test_nobody_listening_is_a_problem_and_no_crash(root: Path, tmp_path: Path) -> None:
    with serving(root) as base_url:
        pass
    found = download(base_url + "a/b.warc.gz", tmp_path / "d", QUICK)
    assert found.path is None
    assert "refused" in found.problem


def test_names_of_files_hold_the_whole_path_and_nothing_else() -> None:
    assert file_name("http://a/x/../y%2F..%2Fz/0.gz?token=1") == "x-..-y-..-z-0.gz"
    assert file_name("http://a/1/0.gz") != file_name("http://a/2/0.gz")


@pytest.mark.parametrize(
    ("asked", "status", "part"),
    [("bytes=10-19", 206, CONTENT[10:20]), ("bytes=1023000-", 206, CONTENT[1_023_000:]), ("lines=1-2", 200, CONTENT)],
)
def test_our_server_gives_the_range_that_is_asked_for(root: Path, asked: str, status: int, part: bytes) -> None:
    with serving(root) as base_url, urlopen(Request(base_url + "a/b.warc.gz", headers={"Range": asked})) as response:
        assert (response.status, response.read()) == (status, part)


# --- the crawl that is made, and the whole way -----------------------------------------------------------------------


@pytest.fixture(scope="module")
def crawl(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("crawl") / "S"
    make(GENERATOR, folder)
    return folder


def test_the_same_size_and_seed_make_the_same_crawl(crawl: Path, tmp_path: Path) -> None:
    make(GENERATOR, tmp_path / "again")
    make(GENERATOR, tmp_path / "other", "--seed", "2")
    assert contents(tmp_path / "again") == contents(crawl)
    assert contents(tmp_path / "other")["truth/files.json"] != contents(crawl)["truth/files.json"]


def test_what_is_written_is_whole_or_not_there(crawl: Path, tmp_path: Path) -> None:
    paths = gzip.decompress((crawl / "crawl" / "crawl-data" / make_crawl.CRAWL / "warc.paths.gz").read_bytes()).split()
    with serving(crawl / "crawl") as base_url:
        options = Settings(base_url, tmp_path / "d", tmp_path / "out", "parquet", QUICK)
        fetched = fetch_file(options, paths[0].decode())
        missing = curate_file(options, fetch_file(options, "missing"))
    done = curate_file(options, fetched)
    (file,) = (tmp_path / "out").iterdir()
    assert pq.read_table(file).num_rows == done.tally.documents == make_crawl.SIZES["S"][1]
    assert (missing.download.path, missing.tally.documents) == (None, 0)
    file.unlink()
    assert fetched.download.path is not None
    fetched.download.path.unlink()
    with pytest.raises(FileNotFoundError):
        curate_file(options, fetched)
    assert [one.suffix for one in (tmp_path / "out").iterdir()] == [".part"]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with small_cluster(tmp_path_factory.mktemp("cluster")) as cluster:
        yield cluster


def run_script(cluster: Cluster, folder: Path, *options: str | Path) -> dict[str, Any]:
    places = ("--download-path", folder / "downloads")
    nowhere = "http://127.0.0.1:9"
    return metrics_of(cluster, SUITE / "common_crawl.py", folder / "results", *options, *places, http_proxy=nowhere)


def required_metrics() -> set[str]:
    entries = yaml.safe_load((SUITE / "matrix.yaml").read_text())["entries"]
    return {one["metric"] for entry in entries for one in entry["requirements"]}


@pytest.mark.slow
def test_on_ray_every_page_is_found_though_each_file_broke_off_and_the_next_run_downloads_nothing(
    cluster: Cluster, crawl: Path, tmp_path: Path
) -> None:
    options = ("--crawl-path", crawl / "crawl", "--truth-path", crawl / "truth")
    first = run_script(
        cluster, tmp_path, *options, "--interrupt", "--output-path", tmp_path / "lines", "--output-format", "jsonl"
    )
    assert required_metrics() <= first.keys()
    assert first["is_success"] is True
    assert (first["num_documents"], first["num_broken_records"]) == (400, 4 * (len(BROKEN) + 1))
    wrong = ("missing_documents", "unexpected_documents", "wrong_documents", "uncounted_broken_records")
    assert [first[name] for name in wrong] == [0, 0, 0, 0]
    assert (first["resumed_share"], first["downloaded_share"]) == (1, 1)
    tasks = pickle.loads((tmp_path / "results" / "tasks.pkl").read_bytes())
    assert {stage["stage_name"] for task in tasks for stage in task["_stage_perf"]} == {
        *("download", "read", "extract", "write")
    }
    second = run_script(cluster, tmp_path, *options, "--url-limit", "3", "--output-path", tmp_path / "rows")
    assert (second["num_urls"], second["num_documents"], second["downloaded_mb"]) == (3, 300, 0)
    assert [second[name] for name in wrong] == [0, 0, 0, 0]


@pytest.mark.slow
def test_on_ray_a_file_that_is_not_there_spoils_the_success_and_nothing_else(
    cluster: Cluster, crawl: Path, tmp_path: Path
) -> None:
    """Also: a server of its own, whose address the script is given."""
    folder = tmp_path / "crawl"
    for name, content in contents(crawl / "crawl").items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)
    next(folder.rglob("*-00002.warc.gz")).unlink()
    with serving(folder) as base_url:
        metrics = run_script(
            cluster,
            tmp_path,
            "--base-url",
            base_url,
            "--truth-path",
            crawl / "truth",
            "--output-path",
            tmp_path / "out",
        )
    assert metrics["is_success"] is False
    assert (metrics["failed_downloads"], metrics["num_documents"], metrics["missing_documents"]) == (1, 300, 100)


@pytest.mark.slow
def test_the_matrix_makes_its_crawl_and_its_entries_pass(tmp_path: Path) -> None:
    command: list[str | Path] = [sys.executable, "-m", "pytest", SUITE, "-m", "common_crawl", "-k", "parquet"]
    outcome = subprocess.run(
        [*command, "-p", "no:cacheprovider", "--bench-results", tmp_path / "results"],
        env={**without_ray(os.environ), "DATASETS_DIR": str(tmp_path / "datasets"), "CRAWL_SIZE": "S"},
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
    )
    assert outcome.returncode == 0, outcome.stdout + outcome.stderr
    assert "1 passed" in outcome.stdout
