"""Load every matrix file of one invocation: read, merge overlays, expand, and raise all mistakes at once."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from curator_bench.errors import MatrixError, Mistake
from curator_bench.masking import Mask
from curator_bench.matrix import axes, old_spellings
from curator_bench.matrix.context import Load, LoadRequest
from curator_bench.matrix.entry_block import EntriesReader, name_is_taken
from curator_bench.matrix.file_block import FileReader
from curator_bench.matrix.merging import append_entry, merge_document
from curator_bench.matrix.placeholders import nearest
from curator_bench.matrix.pruning import Pruner
from curator_bench.matrix.reading import read
from curator_bench.matrix.scalars import describe
from curator_bench.matrix.tree import Block, Filled, Items, Undefined, one_line
from curator_bench.matrix.variables import Variables
from curator_bench.values import AxisValue, Entry, Matrix, MatrixFile, Place

__all__ = ["LoadRequest", "load"]

# Names in a session's directory that are not folders of entries.
_TAKEN_FOLDERS = (
    *("env", "data_setup", "undelivered", "sinks", "wandb", "fleet", "standing_clusters"),
    *("session.json", "summary.json", "progress.json", "packages.txt", "conda-explicit.txt"),
)
_SECRET_KEEPERS = ("env", "sinks", "sink_data")


def load(request: LoadRequest) -> Matrix:
    """Load every entry of every file of the request. Raises MatrixError with all mistakes."""
    state, trees = _read_all(request)
    files: list[tuple[Block, MatrixFile]] = []
    entries: list[Entry] = []
    for path, tree in trees:
        pruned, file, found = _expand(path, tree, state)
        entries.extend(found)
        files.append((pruned, file))
    _check_names(entries, state)
    _check_secrets(entries, state)
    if not request.results_dir:
        _check_equal("results_dir", files, state)
    _check_equal("sinks", files, state)
    if state.mistakes:
        raise MatrixError(state.masked(state.mistakes))
    mask = state.mask()
    return Matrix(
        files=tuple(file for _, file in files),
        entries=_with_folders(entries),
        warnings=tuple(dict.fromkeys(one_line(mask.hide(warning)) for warning in state.warnings)),
        mask=mask,
    )


def _read_all(request: LoadRequest) -> tuple[Load, list[tuple[Path, Block]]]:
    """Read the merged trees. If a file lists `secrets`, all files are read again with these known from the start."""
    state = Load(request, Variables(request.variables))
    trees = _merged_trees(state)
    if not state.declared:
        return state, trees
    again = Load(request, Variables(request.variables, state.declared))
    return again, _merged_trees(again)


def _merged_trees(state: Load) -> list[tuple[Path, Block]]:
    """Merge each collected file with its own further documents and with every overlay."""
    bases: list[tuple[Path, Block]] = []
    own_overlays: list[list[Block]] = []
    for path in state.request.files:
        documents = _documents(path, state)
        if documents:
            bases.append((path, documents[0]))
            own_overlays.append(documents[1:])
    for index, overlays in enumerate(own_overlays):
        bases[index : index + 1] = _lay_over(bases[index : index + 1], overlays, state)
    return _lay_over(bases, _common_overlays(state), state)


def _documents(path: Path, state: Load) -> list[Block]:
    documents = [old_spellings.modernize(document, state.warnings) for document in _read(path, state)]
    for document in documents:
        state.declared.update(_declared_secrets(document))
    return documents


def _declared_secrets(document: Block) -> Iterator[str]:
    """Yield the names under `secrets`, of the file and of its entries."""
    entries = document.get("entries")
    for block in (document, *(entries if isinstance(entries, Items) else ())):
        names = block.get("secrets") if isinstance(block, Block) else None
        yield from (name for name in (names if isinstance(names, Items) else [names]) if isinstance(name, str))


def _read(path: Path, state: Load) -> list[Block]:
    documents = read(path, state.variables, state.mistakes, shown=state.shown(path))
    state.everything_read = state.everything_read and bool(documents)
    return documents


def _common_overlays(state: Load) -> list[Block]:
    overlays = [document for path in state.request.overlays for document in _documents(path, state)]
    if (path := state.request.datasets_file) is not None:
        overlays += [_datasets(document, state) for document in _read(path, state)]
    return overlays


def _datasets(document: Block, state: Load) -> Block:
    """Read a datasets file: a matrix document with a list of datasets, or the old form."""
    if isinstance(document.get("datasets"), Items):
        return document
    return old_spellings.datasets_document(document, state.warnings, state.mistakes)


def _lay_over(bases: list[tuple[Path, Block]], overlays: list[Block], state: Load) -> list[tuple[Path, Block]]:
    for overlay in overlays:
        matched: set[int] = set()
        merged = []
        for path, tree in bases:
            new, found = merge_document(tree, overlay)
            merged.append((path, new))
            matched |= found
        bases = _add_unmatched(merged, overlay, matched, state)
    return bases


def _add_unmatched(
    bases: list[tuple[Path, Block]], overlay: Block, matched: set[int], state: Load
) -> list[tuple[Path, Block]]:
    """Handle entries of an overlay that match no entry.

    With a script they are new and join the first file; without one they are mistakes.
    """
    entries = overlay.get("entries")
    if not isinstance(entries, Items) or not bases:
        return bases
    for index, entry in enumerate(entries):
        if index in matched:
            continue
        path, first = bases[0]
        if not isinstance(entry, Block) or "script" in entry or "asv" in entry:
            bases[0] = (path, append_entry(first, overlay, index))
        elif entry.get("enabled") is not False and state.everything_read:
            state.mistakes.append(_matches_nothing(entry, index, entries.places[index], bases))
    return bases


def _matches_nothing(entry: Block, index: int, place: Place, bases: list[tuple[Path, Block]]) -> Mistake:
    name = entry.get("name")
    if not isinstance(name, str):
        return Mistake(place, f"entries[{index}].name", f"found {describe(name)}, expected the name of an entry")
    known = [known.get("name") for _, tree in bases for known in tree.get("entries") or () if isinstance(known, Block)]
    near = nearest(name, [text for text in known if isinstance(text, str)])
    problem = f"an entry without a script must name an existing entry, but there is no entry {name!r}{near}"
    return Mistake(place, f"entries[{name}]", problem)


def _expand(path: Path, tree: Block, state: Load) -> tuple[Block, MatrixFile, list[Entry]]:
    pruner = Pruner(tree)
    pruned = pruner.prune()
    state.mistakes.extend(pruner.mistakes)
    _note_secrets(pruned, False, state.variables)
    reader = FileReader(path, pruned, state, records_gpus=not _is_disabled(tree.get("gpu_stats_recorder")))
    file = reader.read()
    return pruned, file, list(EntriesReader(pruned, file, reader, state).read())


def _is_disabled(block: object) -> bool:
    """True if the block is disabled.

    Disabled blocks are pruned as if absent, but the GPU recorder is on by default, so disabling its block has to switch
    it off.
    """
    return isinstance(block, Block) and block.get("enabled") is False


def _note_secrets(node: Any, kept: bool, variables: Variables) -> None:
    """Remember the values of keys with secret names, in blocks where users choose the keys (such as `env`)."""
    if isinstance(node, Block):
        for key, value in node.items():
            if isinstance(value, Block | Items):
                _note_secrets(value, kept or key in _SECRET_KEEPERS, variables)
            elif kept and isinstance(value, str) and variables.is_secret(key):
                variables.secrets |= _texts_to_hide(value, variables)
    elif isinstance(node, Items):
        for item in node:
            _note_secrets(item, kept, variables)


def _texts_to_hide(value: str, variables: Variables) -> set[str]:
    """Values of a secret key to mask. A variable's value is a secret, its name is not."""
    if isinstance(value, Undefined):
        return set()
    filled, missing = (value, ()) if isinstance(value, Filled) else variables.fill(value)
    return set() if missing else {str(filled)}


def _check_names(entries: list[Entry], state: Load) -> None:
    """Report entry names used by two files. Names within a file are checked earlier."""
    first: dict[str, Entry] = {}
    for entry in entries:
        known = first.setdefault(entry.name, entry)
        if known.file is not entry.file:
            problem = name_is_taken(entry.name, known.place)
            state.mistakes.append(Mistake(entry.place, f"entries[{entry.name}]", problem))


def _check_secrets(entries: list[Entry], state: Load) -> None:
    """Report secrets in the names of tests, marks or folders, which are shown everywhere."""
    for entry in entries:
        file = entry.file
        named = [entry.name, *entry.marks, *(value.text for value in entry.axes if value.named)]
        named += [setup.name for setup in file.data_setups] + [name for key in file.datasets for name in key]
        if state.variables.is_in(named):
            problem = "a secret names a test, a mark or a folder; use it in args or env only"
            state.mistakes.append(Mistake(entry.place, f"entries[{entry.name}]", problem))


def _check_equal(key: str, files: list[tuple[Block, MatrixFile]], state: Load) -> None:
    """Report files that disagree. A session has one results directory and one set of sinks."""
    first: tuple[object, Place] | None = None
    mask = state.mask()
    for tree, file in files:
        value = file.results_dir if key == "results_dir" else [{"name": s.name, **s.settings} for s in file.sinks]
        if not value:
            continue
        place = tree.places.get(key, Place(state.shown_file(file.file), 0))
        if first is None:
            first = (value, place)
        elif value != first[0]:
            problem = f"found {_brief(value, mask)}, expected what {first[1]} has: {_brief(first[0], mask)}"
            state.mistakes.append(Mistake(place, key, problem))


def _brief(value: object, mask: Mask) -> str:
    """Short text of a value. It is masked before it is cut, because half a secret is not recognised."""
    text = str(_hidden(value, mask))
    return text if len(text) <= 300 else text[:297] + "..."


def _hidden(value: Any, mask: Mask) -> Any:
    if isinstance(value, dict):
        return {key: _hidden(inner, mask) for key, inner in value.items()}
    if isinstance(value, list):
        return [_hidden(inner, mask) for inner in value]
    return mask.hide(value) if isinstance(value, str) else value


def _with_folders(entries: list[Entry]) -> tuple[Entry, ...]:
    """Give each entry its folder: one level for its name, one per axis value."""
    names = axes.safe_folders(dict.fromkeys(entry.name for entry in entries), _TAKEN_FOLDERS)
    below = {
        name: axes.safe_folders(dict.fromkeys(value.text for value in group))
        for name, group in _values_by_axis(entries).items()
    }
    taken: set[tuple[str, ...]] = set()
    placed = []
    for entry in entries:
        folder = (
            names[entry.name],
            *(below[entry.name, value.axis][value.text] for value in entry.axes if value.named),
        )
        while tuple(name.casefold() for name in folder) in taken:
            folder = (*folder[:-1], folder[-1] + "_")
        taken.add(tuple(name.casefold() for name in folder))
        placed.append(replace(entry, folder=folder))
    return tuple(placed)


def _values_by_axis(entries: list[Entry]) -> dict[tuple[str, str], list[AxisValue]]:
    groups: dict[tuple[str, str], list[AxisValue]] = {}
    for entry in entries:
        for value in entry.axes:
            groups.setdefault((entry.name, value.axis), []).append(value)
    return groups
