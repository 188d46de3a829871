"""An interpreter's packages without some of them: what is left can be imported, and nothing of the others."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from curator_bench.hunting.layers import link_all_but


def site(folder: Path, files: Iterable[str]) -> Path:
    for name in files:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(name)
    return folder


def linked(folder: Path, files: Iterable[str], without: Iterable[str]) -> list[str]:
    """The files that are left."""
    source = site(folder / "site", files)
    link_all_but(source, [source / name for name in without], folder / "layer")
    return sorted(str(path.relative_to(folder / "layer")) for path in _files_below(folder / "layer"))


def _files_below(folder: Path) -> Iterable[Path]:
    for entry in folder.iterdir():
        if entry.is_dir():
            yield from _files_below(entry)
        else:
            yield entry


def test_packages_that_are_left_are_links(tmp_path: Path) -> None:
    files = ["one.py", "two/__init__.py", "two/part.py", "gone.py", "gone-1.dist-info/RECORD"]
    left = linked(tmp_path, files, ["gone.py", "gone-1.dist-info/RECORD"])
    assert left == ["one.py", "two/__init__.py", "two/part.py"]
    assert (tmp_path / "layer" / "two").is_symlink()


def test_a_package_goes_with_all_that_it_has_written_into_its_folder(tmp_path: Path) -> None:
    files = ["gone/__init__.py", "gone/__pycache__/__init__.pyc", "gone/cache/data"]
    assert linked(tmp_path, files, ["gone/__init__.py"]) == []
    assert not (tmp_path / "layer" / "gone").exists()


def test_what_shares_a_namespace_stays(tmp_path: Path) -> None:
    files = ["shared/kept/__init__.py", "shared/gone/__init__.py", "shared/gone.py", "shared/__pycache__/gone.pyc"]
    without = ["shared/gone/__init__.py", "shared/gone.py", "shared/__pycache__/gone.pyc"]
    assert linked(tmp_path, files, without) == ["shared/kept/__init__.py"]


def test_files_elsewhere_do_not_matter(tmp_path: Path) -> None:
    assert linked(tmp_path, ["one.py"], ["../bin/gone", "/nowhere/one.py"]) == ["one.py"]
