"""Write the tables of docs/matrix-keys.md from the models that validate a matrix, so that they are never out of date.

`python docs/generate_reference.py` writes them; with `--check` it only says, by exit code 1, that they are out of date.
"""

from __future__ import annotations

import argparse
import inspect
import re
import sys
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from curator_bench.matrix import schema

PAGE = Path(__file__).with_name("matrix-keys.md")
BEGIN = "<!-- The tables from here on are written by docs/generate_reference.py. -->"
END = "<!-- The tables end here. -->"

BLOCKS: dict[type[BaseModel], str] = {
    schema.FileBlock: "the file",
    schema.EntryBlock: "entries",
    schema.RequirementBlock: "requirements",
    schema.RayBlock: "ray",
    schema.PathBlock: "paths",
    schema.DatasetBlock: "datasets",
    schema.FormatBlock: "formats",
    schema.GenerateBlock: "generate",
    schema.DataSetupBlock: "data_setups",
    schema.SubjectBlock: "subjects",
    schema.GpuStatsBlock: "gpu_stats_recorder",
}
# What these take is read by hand, so their types in the models say nothing.
READ_BY_HAND = {
    (schema.FileBlock, "entries"): "list of [entries](#keys-of-entries)",
    (schema.EntryBlock, "matrix"): "mapping of names to [axes](matrix.md#axes)",
    (schema.EntryBlock, "exclude"): "list of mappings",
    (schema.EntryBlock, "include"): "list of mappings",
}
WORDS: list[tuple[Any, str]] = [
    (schema.Text, "text"),
    (schema.Name, "name"),
    (schema.PlaceholderName, "name"),
    (schema.DatasetName, "name"),
    (schema.Mark, "mark"),
    (schema.Texts, "list of texts"),
    (schema.Marks, "list of marks"),
    (schema.Seconds, "seconds"),
    (schema.SecondsOrNone, "seconds"),
    (schema.Count, "whole number"),
    (schema.Amount, "number"),
    (schema.Gpus, "number"),
    (schema.Bytes, "bytes"),
    (schema.Fraction, "share"),
    (schema.StoreSize, "bytes, share or `default`"),
    (schema.ExactValue, "number, text, true or false"),
    (schema.Environment, "mapping of names to texts"),
    (float, "number"),
    (int, "whole number"),
    (bool, "true or false"),
    (str, "text"),
]


def in_words(annotation: Any) -> str:
    """A type as a person would say it."""
    for known, words in WORDS:
        if annotation is known or annotation == known:
            return words
    if annotation in BLOCKS:
        return f"[{BLOCKS[annotation]}](#keys-of-{BLOCKS[annotation]})"
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin in (Union, types.UnionType):
        return " or ".join(in_words(member) for member in arguments if member is not type(None))
    if origin is Annotated:
        return in_words(arguments[0])
    if origin is Literal:
        return " or ".join(f"`{choice}`" for choice in arguments)
    if origin is list:
        return "list of mappings" if get_origin(arguments[0]) is dict else f"list of {in_words(arguments[0])}"
    if origin is dict:
        return f"mapping of names to {in_words(arguments[1])}s"
    raise SystemExit(f"docs/generate_reference.py has no words for the type {annotation}")


def default_of(field: FieldInfo) -> str:
    if field.is_required():
        return "required"
    value = field.default
    if field.default_factory is not None or value in (None, "") or isinstance(value, BaseModel):
        return ""
    return f"`{str(value).lower() if isinstance(value, bool) else value}`"


def rows(model: type[BaseModel]) -> Iterator[str]:
    hints = get_type_hints(model, include_extras=True)
    for name, field in model.model_fields.items():
        if name == "enabled":  # any block may have it; the page says so once
            continue
        if not field.description:
            raise SystemExit(f"{model.__name__}.{name} has no description for its row in docs/matrix-keys.md")
        takes = READ_BY_HAND.get((model, name)) or in_words(hints[name])
        yield f"| `{name}` | {takes} | {default_of(field)} | {field.description} |"


def table(model: type[BaseModel]) -> str:
    lines = [f"## Keys of {BLOCKS[model]}", "", inspect.cleandoc(model.__doc__ or ""), ""]
    return "\n".join([*lines, "| key | takes | default | meaning |", "|---|---|---|---|", *rows(model)])


def with_tables(page: str) -> str:
    """The page with its tables as the models have them now."""
    if page.count(BEGIN) != 1 or page.count(END) != 1:
        raise SystemExit(f"{PAGE} has lost the lines that say where its tables begin and end")
    tables = "\n\n".join(table(model) for model in BLOCKS)
    return re.sub(
        f"{re.escape(BEGIN)}.*{re.escape(END)}", lambda _: f"{BEGIN}\n\n{tables}\n\n{END}", page, flags=re.DOTALL
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing; exit with 1 if the tables are out of date")
    is_check = parser.parse_args().check
    page = PAGE.read_text("utf-8")
    fresh = with_tables(page)
    if is_check and fresh != page:
        sys.exit(f"the tables of {PAGE} are out of date; run: python docs/generate_reference.py")
    if not is_check:
        PAGE.write_text(fresh, "utf-8")


if __name__ == "__main__":
    main()
