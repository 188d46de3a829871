"""A file of a user may import its neighbours while it is loaded, and nothing is imported from its folder afterwards."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from curator_bench import extensions
from curator_bench.errors import BenchError


@pytest.mark.parametrize("everybody_writes", [False, True])
def test_the_folder_of_a_file_is_importable_only_while_it_is_loaded_and_nobody_else_writes_there(
    tmp_path: Path, everybody_writes: bool
) -> None:
    folder = tmp_path / "matrices"
    folder.mkdir()
    folder.chmod(0o1777 if everybody_writes else 0o755)
    name = f"beside_it_{everybody_writes}"
    (folder / f"{name}.py").write_text("VALUE = 7\n")
    (folder / "own.py").write_text(f"from {name} import VALUE\n")
    before = list(sys.path)
    try:
        if everybody_writes:
            with pytest.raises(BenchError, match=f"No module named '{name}'"):
                extensions.find("sink", "./own.py:VALUE", folder)
        else:
            assert extensions.find("sink", "./own.py:VALUE", folder) == 7
    finally:
        sys.modules.pop(name, None)
    assert sys.path == before
