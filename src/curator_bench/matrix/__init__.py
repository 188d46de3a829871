"""Text to Entry: read matrix files, merge them, fill in variables and placeholders, validate, expand axes."""

from curator_bench.matrix.command import Command, command_of, dataset_need
from curator_bench.matrix.definition import (
    Definition,
    Definitions,
    definition_hash,
    definition_of,
    function_definition,
    what_changed,
)
from curator_bench.matrix.loading import LoadRequest, load

__all__ = [
    "Command",
    "Definition",
    "Definitions",
    "LoadRequest",
    "command_of",
    "dataset_need",
    "definition_hash",
    "definition_of",
    "function_definition",
    "load",
    "what_changed",
]
