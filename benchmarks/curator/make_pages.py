"""Makes pages as math_preprocess reads them: web pages with formulas, plain texts and notebooks, in parquet files.

They are the same for the same numbers of files and pages. Every tenth is a plain text, every twentieth a notebook.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--files", type=int, default=4)
    parser.add_argument("--pages", type=int, default=50, help="in each file")
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    for number in range(options.files):
        pages = [page(number * options.pages + index) for index in range(options.pages)]
        pq.write_table(pa.Table.from_pylist(pages), options.out / f"{number}.parquet")
    print(f"{options.files * options.pages} pages")


def page(number: int) -> dict[str, str | bytes]:
    formula = f"\\int_0^{number} x^2 dx = {number**3}/3"
    if number % 20 == 3:
        kind, mime, text = "ipynb", "application/json", notebook(formula)
    elif number % 10 == 7:
        kind, mime, text = "txt", "text/plain", f"Problem {number}.\n\nShow that {formula}.\n"
    else:
        kind, mime, text = "html", "text/html", html(number, formula)
    url = f"https://math.example.org/{number}.{kind}"
    return {"url": url, "content_mime_type": mime, "binary_content": text.encode()}


def html(number: int, formula: str) -> str:
    body = f"<h1>Problem {number}</h1><p>Show that <code>{formula}</code>.</p><ul><li>Hint: a limit of sums</li></ul>"
    return f"<!DOCTYPE html><html><head><title>Problem {number}</title></head><body>{body}</body></html>"


def notebook(formula: str) -> str:
    cells = [{"cell_type": "markdown", "metadata": {}, "source": [f"Show that ${formula}$."]}]
    return json.dumps({"cells": cells, "metadata": {}, "nbformat": 4, "nbformat_minor": 5})


if __name__ == "__main__":
    main()
