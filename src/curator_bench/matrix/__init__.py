"""Text to Entry: reads matrix files, merges them, fills in what stands for something else, validates, expands axes."""

from curator_bench.matrix.command import Command, command_of, dataset_need
from curator_bench.matrix.definition import definition_hash, function_hash
from curator_bench.matrix.loading import LoadRequest, load

__all__ = ["Command", "LoadRequest", "command_of", "dataset_need", "definition_hash", "function_hash", "load"]
