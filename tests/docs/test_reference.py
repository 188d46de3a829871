"""The tables of docs/matrix-keys.md are those of the models."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from pydantic import BaseModel

from curator_bench.matrix import schema

ROOT = Path(__file__).parents[2]
GENERATOR = ROOT / "docs" / "generate_reference.py"


def generate(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(folder / GENERATOR.name), *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


def copy_of_docs(folder: Path, old: str = "", new: str = "") -> Path:
    (folder / GENERATOR.name).write_text(GENERATOR.read_text())
    page = GENERATOR.with_name("matrix-keys.md").read_text()
    assert old in page
    (folder / "matrix-keys.md").write_text(page.replace(old, new, 1))
    return folder


def test_the_tables_in_the_docs_say_what_the_models_say() -> None:
    outcome = generate(GENERATOR.parent, "--check")
    assert outcome.returncode == 0, outcome.stderr


def test_every_key_has_a_row(tmp_path: Path) -> None:
    page = GENERATOR.with_name("matrix-keys.md").read_text()
    known = [model for model in vars(schema).values() if isinstance(model, type) and issubclass(model, BaseModel)]
    models = [model for model in known if model.__name__.endswith("Block")]
    missing = [
        f"{model.__name__}.{name}"
        for model in models
        for name in model.model_fields
        if name != "enabled" and f"\n| `{name}` | " not in page
    ]
    assert missing == []


def test_a_page_that_is_out_of_date_is_found_and_put_right(tmp_path: Path) -> None:
    docs = copy_of_docs(tmp_path, "| `warmup` | whole number | `0` |", "| `warmup` | text | `1` |")
    stale = generate(docs, "--check")
    assert stale.returncode == 1
    assert "out of date; run: python docs/generate_reference.py" in stale.stderr
    assert generate(docs).returncode == 0
    assert (docs / "matrix-keys.md").read_text() == GENERATOR.with_name("matrix-keys.md").read_text()
