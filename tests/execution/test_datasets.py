"""Datasets made on first use: once, whole or not at all, and never over what is the user's own."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from other_user import needs_a_second_user, run, shared_folder

from curator_bench.errors import DatasetError
from curator_bench.execution.datasets import ensure
from curator_bench.masking import Mask
from curator_bench.measure.processes import busyness, identify
from curator_bench.values import DatasetNeed

SOURCE = Path(__file__).parents[2] / "src"
MAKES_IT = """
import os, sys, time
from pathlib import Path
folder, seconds = Path(sys.argv[1]), float(sys.argv[2])
ended = folder.parent / "ended"
with open(folder.parent / "makers", "a") as makers:
    makers.write(f"{os.getpid()} {ended.exists()}\\n")
jsonl = folder / "jsonl"
jsonl.mkdir(exist_ok=True)
(jsonl / "part-0").write_text("one")
time.sleep(seconds)
(jsonl / "part-1").write_text("two")
ended.touch()
"""
ENSURES_IT = """
import os, pickle, sys
from pathlib import Path
from curator_bench.execution.datasets import ensure
ensure(pickle.loads(bytes.fromhex(sys.argv[1])), env=dict(os.environ), session_dir=Path(sys.argv[2]))
print(sorted(path.name for path in Path(sys.argv[3]).iterdir()))
"""


class Corpus:
    """A dataset that a script makes in a folder."""

    def __init__(self, top: Path) -> None:
        self.top = top
        self.folder = top / "data" / "corpus"
        self.path = self.folder / "jsonl"
        self.script = top / "make.py"
        self.script.write_text(MAKES_IT)
        self.manifest = self.folder.parent / ".corpus.curator-bench.json"

    def need(self, seconds: float = 0, code: str = MAKES_IT, path: Path | None = None, **more: Any) -> DatasetNeed:
        self.script.write_text(code)
        command = (sys.executable, str(self.script), str(self.folder), str(seconds))
        need = DatasetNeed("corpus", "jsonl", str(path or self.path), str(self.folder), command, 60.0)
        return replace(need, **more)

    def ensure(self, need: DatasetNeed, env: Mapping[str, str] = os.environ) -> None:
        ensure(need, env=env, session_dir=self.top / "log")

    def ensure_elsewhere(self, need: DatasetNeed) -> subprocess.Popen[str]:
        import pickle

        words = [sys.executable, "-c", ENSURES_IT, pickle.dumps(need).hex(), str(self.top / "log"), need.path]
        env = {**os.environ, "PYTHONPATH": str(SOURCE)}
        return subprocess.Popen(words, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    @property
    def made(self) -> int:
        """How often it was begun."""
        makers = self.folder.parent / "makers"
        return len(makers.read_text().splitlines()) if makers.exists() else 0

    def makers(self) -> list[tuple[int, bool]]:
        """The process that made it, each time, and whether another had come to its end by then."""
        lines = (self.folder.parent / "makers").read_text().splitlines()
        return [(int(line.split()[0]), line.split()[1] == "True") for line in lines]

    def is_whole(self) -> bool:
        return sorted(path.name for path in self.path.iterdir()) == ["part-0", "part-1"]


@pytest.fixture
def corpus(tmp_path: Path) -> Corpus:
    return Corpus(tmp_path)


def test_a_dataset_that_is_there_is_used_as_it_is(corpus: Corpus) -> None:
    (corpus.top / "own").mkdir()
    corpus.ensure(DatasetNeed("own", "jsonl", str(corpus.top / "own")))
    corpus.ensure(DatasetNeed("remote", "jsonl", "s3://bucket/own"))


def test_a_dataset_that_is_not_there_and_cannot_be_made_is_an_error_that_names_it(corpus: Corpus) -> None:
    with pytest.raises(DatasetError, match="dataset own,jsonl not found: /nowhere/own"):
        corpus.ensure(DatasetNeed("own", "jsonl", "/nowhere/own"))


def test_it_is_made_on_first_use_and_not_again(corpus: Corpus) -> None:
    corpus.ensure(corpus.need())
    assert corpus.is_whole()
    corpus.ensure(corpus.need())
    assert corpus.made == 1


def test_a_manifest_says_what_was_made_and_how(corpus: Corpus) -> None:
    need = corpus.need()
    corpus.ensure(need)
    manifest = json.loads(corpus.manifest.read_text())
    assert manifest["state"] == "made"
    assert manifest["command"] == list(need.command)
    assert (manifest["files"], manifest["bytes"], len(manifest["sha256"])) == (2, 6, 64)
    assert not list(corpus.folder.rglob(".*"))  # our notes stand beside it


@pytest.mark.parametrize("change", ["script", "argument"])
def test_a_changed_definition_makes_a_new_one(corpus: Corpus, change: str) -> None:
    corpus.ensure(corpus.need())
    (corpus.path / "of the old").touch()
    corpus.ensure(corpus.need(code=MAKES_IT + "# changed") if change == "script" else corpus.need(seconds=0.01))
    assert corpus.made == 2
    assert corpus.is_whole()


def test_a_moved_folder_is_no_change(corpus: Corpus) -> None:
    corpus.ensure(corpus.need())
    moved = Corpus(corpus.top)
    moved.folder = corpus.top / "elsewhere" / "corpus"
    moved.path = moved.folder / "jsonl"
    corpus.folder.parent.rename(moved.folder.parent)
    moved.ensure(moved.need())
    assert moved.made == 1


def test_several_processes_that_want_it_make_it_once(corpus: Corpus) -> None:
    need = corpus.need(seconds=1)
    others = [corpus.ensure_elsewhere(need) for _ in range(4)]
    told = [other.communicate() for other in others]
    assert told == [("['part-0', 'part-1']\n", "")] * 4
    assert corpus.made == 1


def test_one_that_was_interrupted_is_made_again(corpus: Corpus) -> None:
    """Also while what the dead process had started still writes: until that has ended, nobody else begins."""
    need = corpus.need(seconds=2)
    first = corpus.ensure_elsewhere(need)
    deadline = time.monotonic() + 30 * busyness()
    while not (corpus.path / "part-0").exists():
        assert time.monotonic() < deadline
        time.sleep(0.01)
    first.kill()
    first.communicate()
    assert identify(corpus.makers()[0][0])  # no guard here: it lives on
    assert json.loads(corpus.manifest.read_text())["state"] == "making"
    corpus.ensure(need)
    assert [had_ended for _, had_ended in corpus.makers()] == [False, True]
    assert corpus.is_whole()
    assert json.loads(corpus.manifest.read_text())["state"] == "made"


def test_the_users_own_data_is_used_and_never_touched(corpus: Corpus) -> None:
    corpus.path.mkdir(parents=True)
    (corpus.path / "mine").write_text("mine")
    corpus.ensure(corpus.need())
    corpus.ensure(corpus.need(code="raise SystemExit(1)"))
    assert corpus.made == 0
    assert [path.name for path in corpus.path.iterdir()] == ["mine"]


def test_the_users_own_data_on_a_disk_that_cannot_be_written_is_used(corpus: Corpus) -> None:
    """The lock's file cannot be made there."""
    corpus.path.mkdir(parents=True)
    (corpus.folder.parent / ".corpus.curator-bench.lock").mkdir()
    corpus.ensure(corpus.need())
    assert corpus.made == 0


def test_what_the_user_has_beside_it_stays_when_it_is_made_again(corpus: Corpus) -> None:
    """Another format of the same dataset, put there by hand."""
    (corpus.folder / "parquet").mkdir(parents=True)
    (corpus.folder / "parquet" / "mine").write_text("mine")
    corpus.ensure(corpus.need())
    (corpus.path / "of the old").touch()
    corpus.ensure(corpus.need(seconds=0.01))
    assert (corpus.made, corpus.is_whole()) == (2, True)
    with pytest.raises(DatasetError):
        corpus.ensure(corpus.need(code="raise SystemExit(1)"))
    assert not corpus.path.exists()
    assert (corpus.folder / "parquet" / "mine").read_text() == "mine"


def test_a_script_that_fails_is_an_error_with_the_end_of_its_log(corpus: Corpus) -> None:
    code = MAKES_IT + "print('no network'); raise SystemExit(5)"
    with pytest.raises(DatasetError, match=r"corpus,jsonl could not be generated \(exit code 5\)[\s\S]*no network"):
        corpus.ensure(corpus.need(code=code))


def test_after_a_failure_what_the_user_puts_there_is_theirs(corpus: Corpus) -> None:
    failing = corpus.need(code=MAKES_IT + "raise SystemExit(5)")
    with pytest.raises(DatasetError):
        corpus.ensure(failing)
    assert not corpus.folder.exists()
    corpus.path.mkdir(parents=True)
    (corpus.path / "copied by hand").touch()
    corpus.ensure(failing)
    assert corpus.made == 1
    assert [path.name for path in corpus.path.iterdir()] == ["copied by hand"]


def test_a_script_that_takes_too_long_is_ended(corpus: Corpus) -> None:
    with pytest.raises(DatasetError, match=r"could not be generated \(its time was over\)"):
        corpus.ensure(corpus.need(seconds=600, timeout_s=0.5))
    assert identify(corpus.makers()[0][0]) is None


def test_a_script_that_leaves_nothing_at_the_path_is_told_and_run_once(corpus: Corpus) -> None:
    """What it did make may be in use by others: it is not made again for the format that it never makes."""
    need = corpus.need(path=corpus.folder / "parquet")
    with pytest.raises(DatasetError, match=f"its script left nothing at {need.path}"):
        corpus.ensure(need)
    with pytest.raises(DatasetError, match=f"nothing at {need.path}. To generate it again, remove {corpus.path}"):
        corpus.ensure(need)
    corpus.ensure(corpus.need())
    assert (corpus.made, corpus.is_whole()) == (1, True)


def test_a_folder_that_was_removed_is_made_again(corpus: Corpus) -> None:
    corpus.ensure(corpus.need())
    for path in sorted(corpus.folder.rglob("*"), reverse=True):
        path.rmdir() if path.is_dir() else path.unlink()
    corpus.ensure(corpus.need())
    assert (corpus.made, corpus.is_whole()) == (2, True)


def test_a_format_that_was_removed_is_made_again_beside_what_is_the_users(corpus: Corpus) -> None:
    (corpus.folder / "parquet").mkdir(parents=True)
    corpus.ensure(corpus.need())
    shutil.rmtree(corpus.path)
    corpus.ensure(corpus.need())
    assert (corpus.made, corpus.is_whole(), (corpus.folder / "parquet").exists()) == (2, True, True)


def test_a_manifest_holds_no_secrets(corpus: Corpus) -> None:
    secret = "hunter2hunter2"
    need = corpus.need()
    with_secret = replace(need, command=(*need.command, secret))
    ensure(with_secret, env=os.environ, session_dir=corpus.top / "log", mask=Mask(frozenset([secret])))
    assert corpus.is_whole()
    assert secret not in corpus.manifest.read_text()


def test_a_script_that_is_not_there_is_an_error(corpus: Corpus) -> None:
    need = corpus.need()
    corpus.script.unlink()
    with pytest.raises(DatasetError, match="the script that generates the dataset corpus,jsonl cannot be read"):
        corpus.ensure(need)


PLANTS = """
manifest, folder, target = sys.argv[1:]
with open(manifest, "w") as file:
    json.dump({"state": "making", "definition": "another", "not_ours": []}, file)
if target:
    os.symlink(target, folder)
"""


@needs_a_second_user
@pytest.mark.parametrize("is_linked", [True, False])
def test_a_manifest_or_link_of_another_user_removes_nothing_of_ours(tmp_path: Path, is_linked: bool) -> None:
    """As on a disk for data that all users share: the manifest says that all files in the folder are to be replaced."""
    home = tmp_path / "home"
    with shared_folder() as shared:
        corpus = Corpus(shared)
        corpus.folder.parent.mkdir()
        corpus.folder.parent.chmod(0o1777)
        kept = (home if is_linked else corpus.folder) / "file"
        kept.parent.mkdir()
        kept.write_text("precious")
        run(PLANTS, corpus.manifest, corpus.folder, home if is_linked else "")
        with pytest.raises(
            DatasetError, match=r"cannot be generated: .*corpus.* belongs to another user \(uid 65534\)"
        ):
            corpus.ensure(corpus.need())
        assert kept.read_text() == "precious"
        assert corpus.manifest.exists()
