"""The small data for the nightly matrix of a checkout of NeMo Curator is made as the scripts of the matrix read it."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import uuid
from pathlib import Path

import pyarrow.parquet as pq
import pytest
import yaml

from curator_bench.matrix import LoadRequest, command_of, load

SUITE = Path(__file__).parents[2] / "benchmarks" / "curator"
OVERLAY = SUITE / "small_data.yaml"


def make(script: str, *options: str | Path) -> None:
    subprocess.run([sys.executable, SUITE / script, *options], check=True, stdout=subprocess.DEVNULL)


def test_every_script_that_makes_data_is_found_wherever_the_matrix_lies(tmp_path: Path) -> None:
    """Each dataset in a folder of its own, but for those that one script makes."""
    overlay = yaml.safe_load(OVERLAY.read_text())
    datasets = [{"name": one["name"], "formats": []} for one in overlay["datasets"]]
    named = [f"{{dataset:{one['name']},{form['type']}}}" for one in overlay["datasets"] for form in one["formats"]]
    entries = [{"name": one["name"], "script": "s.py", "args": " ".join(named)} for one in overlay["entries"]]
    (tmp_path / "nightly.yaml").write_text(json.dumps({"datasets": datasets, "entries": entries}))
    request = LoadRequest(files=(tmp_path / "nightly.yaml",), overlays=(OVERLAY,), variables={})
    needs = command_of(load(request).entries[0], {}).datasets
    assert len(needs) == len(named)
    assert all(Path(need.command[1]).is_file() for need in needs)
    folders = {need.folder: need.command for need in needs}
    assert all(folders[need.folder] == need.command for need in needs)


def test_the_ids_of_documents_are_known_by_the_paths_of_their_files_the_smallest_first(tmp_path: Path) -> None:
    for name, documents in (("a", 12), ("b", 9)):
        (tmp_path / f"{name}.jsonl").write_text('{"text": "x"}\n' * documents)
    make("make_removal_ids.py", "--documents", tmp_path, "--out", tmp_path / "out")
    written = json.loads((tmp_path / "out" / "id_generator.json").read_text())
    group = str(uuid.uuid5(uuid.NAMESPACE_URL, f"{tmp_path / 'b.jsonl'};{tmp_path / 'a.jsonl'}"))
    assert written == {"next_id": 21, "batch_registry": {group: [0, 20]}}
    assert pq.read_table(tmp_path / "out" / "IDs")["_curator_dedup_id"].to_pylist() == [0, 10, 20]


def test_pages_are_html_texts_and_notebooks(tmp_path: Path) -> None:
    make("make_pages.py", "--files", "2", "--pages", "20", "--out", tmp_path)
    pages = pq.read_table(tmp_path).to_pylist()
    assert len({page["url"] for page in pages}) == 40
    kinds = [page["content_mime_type"] for page in pages]
    assert [kinds.count(kind) for kind in ("text/html", "text/plain", "application/json")] == [34, 4, 2]
    assert {"cells", "nbformat"} <= json.loads(pages[3]["binary_content"]).keys()


@pytest.mark.skipif(shutil.which("ffmpeg") is None, reason="ffmpeg is not installed")
def test_videos_have_the_length_that_was_asked_for(tmp_path: Path) -> None:
    make("make_videos.py", "--videos", "1", "--seconds", "2", "--out", tmp_path)
    words = ["ffprobe", "-v", "error", "-show_entries", "format=duration", "-of", "csv=p=0", str(tmp_path / "0.mp4")]
    shown = subprocess.run(words, capture_output=True, text=True, check=True)
    assert float(shown.stdout) == pytest.approx(2, abs=0.1)


def test_videos_without_ffmpeg_say_so(tmp_path: Path) -> None:
    words = [sys.executable, str(SUITE / "make_videos.py"), "--out", str(tmp_path / "out")]
    outcome = subprocess.run(words, env={"PATH": str(tmp_path)}, capture_output=True, text=True, check=False)
    assert (outcome.returncode, outcome.stderr) == (1, "not found: ffmpeg\n")
    assert not (tmp_path / "out").exists()
