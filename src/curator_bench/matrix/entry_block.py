"""Read the entries of a matrix file. Each block becomes one Entry per combination of its axes."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from curator_bench.errors import Mistake
from curator_bench.matrix import axes, placeholders
from curator_bench.matrix.axes import AxesReader, Combination
from curator_bench.matrix.context import Load
from curator_bench.matrix.file_block import DEFAULT_TIMEOUT_S, FileReader
from curator_bench.matrix.merging import merge
from curator_bench.matrix.scalars import describe
from curator_bench.matrix.schema import EntryBlock, FileBlock, RayBlock, RequirementBlock, as_text
from curator_bench.matrix.suite_block import CHOOSING, SuiteReader
from curator_bench.matrix.tree import Block, Items, Step, Undefined, leaves, place_of, show_path
from curator_bench.matrix.validation import plain, validated
from curator_bench.values import BOUNDS, GATES, Entry, MatrixFile, Place, RaySettings, Requirement, Scalar

# These keys are filled in when the run is planned. In all other keys, axes are filled in before validation.
_FILLED_LATER = frozenset(["name", "args", "script", "python", "env", "matrix", "exclude", "include"])
_WHOLE = re.compile(r"\s*\{([^{}]+)\}\s*")


class EntriesReader:
    """Reader of the `entries` of one file. Mistakes are added to `load.mistakes`."""

    def __init__(self, tree: Block, file: MatrixFile, reader: FileReader, load: Load) -> None:
        self._tree = tree
        self._file = file
        self._reader = reader
        self._block: FileBlock = reader.block
        self._load = load
        self._told_old_name = False

    def read(self) -> Iterator[Entry]:
        items = self._tree.get("entries")
        if items is None:
            return
        if not isinstance(items, Items):
            self._wrong(self._tree, ("entries",), f"found {describe(items)}, expected a list of entries")
            return
        blocks = list(self._blocks(items))
        self._check_unique(blocks)
        broken: set[int] = set()
        for index, block, place in blocks:
            if index not in broken:
                known_mistakes = len(self._load.mistakes)
                yield from self._entry(index, block, place)
                if len(self._load.mistakes) > known_mistakes:
                    broken.add(index)  # all benchmarks of a suite have the same mistakes

    def _blocks(self, items: Items) -> Iterator[tuple[int, Block, Place]]:
        """Yield the blocks with their numbers in the file; a suite of asv as one for each of its benchmarks."""

        def wrong(path: tuple[Step, ...], problem: str) -> None:
            self._wrong(self._tree, path, problem)

        suites = SuiteReader(self._reader, self._load, wrong, self._file.directory)
        for index, (block, place) in enumerate(zip(items, items.places, strict=True)):
            if not isinstance(block, Block):
                self._wrong(self._tree, ("entries", index), f"found {describe(block)}, expected a mapping")
            elif "asv" in block:
                yield from ((index, one, place) for one in suites.blocks(index, block, place))
            else:
                for key in CHOOSING.intersection(block):
                    wrong(("entries", index, key), "goes with `asv`, and chooses among its benchmarks")
                yield index, block, place

    def _check_unique(self, blocks: Sequence[tuple[int, Block, Place]]) -> None:
        first: dict[str, Place] = {}
        for index, block, place in blocks:
            name = as_text(block.get("name"))
            if isinstance(name, str):
                if name in first:
                    hint = "; choose other benchmarks by `bench` and `not_bench`" if "asv" in block else ""
                    self._wrong(self._tree, ("entries", index), name_is_taken(name, first[name]) + hint)
                first.setdefault(name, place)

    def _wrong(self, tree: Any, path: tuple[Step, ...], problem: str, above: tuple[Step, ...] = ()) -> None:
        """Add a mistake at `path` of `tree`; `above` is the path of the tree in the file."""
        here = place_of(self._tree, above, Place(self._load.shown_file(self._file.file), 0))
        mistake = Mistake(place_of(tree, path, here), show_path(self._tree, above + path), problem)
        self._load.mistakes.append(mistake)

    def _entry(self, index: int, block: Block, place: Place) -> Iterator[Entry]:
        """Yield one Entry per combination of the axes; none if there are mistakes, all of which are reported."""
        above: tuple[Step, ...] = ("entries", index)
        known_mistakes = len(self._load.mistakes)
        combinations = self._combinations(block, place, above)
        block = self._with_ray_defaults(block)
        if combinations is None:
            self._report_all_but_axes(block, place, above)
            return
        all_names = _names_of(combinations)
        model = None if _uses_axes(block, all_names) else self._model(block, place, above)
        variants = axes.ids(combinations) if combinations != [()] else [""]
        for choice, variant in zip(combinations, variants, strict=True):
            chosen = block if model else _with_axes(block, choice)
            found = model or (None if len(self._load.mistakes) > known_mistakes else self._model(chosen, place, above))
            own = axis_names(choice)
            self._tell_missing_fields(chosen, all_names - own.keys(), variant, above)
            problems = self._text_problems(chosen, {*own, *all_names}, above)
            entry = self._build(found, chosen, place, above, choice, variant, problems) if found else None
            if entry is None or len(self._load.mistakes) > known_mistakes:
                self._split(chosen, above)
                return  # the other combinations have the same mistakes
            yield entry

    def _combinations(self, block: Block, place: Place, above: tuple[Step, ...]) -> list[Combination] | None:
        """Read the combinations the entry runs for; None if its axes have mistakes."""
        if "matrix" not in block and "include" not in block and "exclude" not in block:
            return [()]
        known_mistakes = len(self._load.mistakes)
        found = AxesReader(block, show_path(self._tree, above), place, self._load.mistakes).combinations()
        return found if len(self._load.mistakes) == known_mistakes else None

    def _report_all_but_axes(self, block: Block, place: Place, above: tuple[Step, ...]) -> None:
        """Report the mistakes of an entry whose axes are invalid. Values that contain axes cannot be checked."""
        named = block.get("matrix")
        if not _uses_axes(block, set(named) if isinstance(named, Block) else set()):
            self._model(block, place, above)
        self._split(block, above)

    def _split(self, block: Block, above: tuple[Step, ...]) -> tuple[str, ...]:
        args = as_text(block.get("args"))
        return self._reader.words(args, (*above, "args")) if isinstance(args, str) else ()

    def _model(self, block: Block, place: Place, above: tuple[Step, ...]) -> EntryBlock | None:
        return validated(EntryBlock, block, place, above, self._tree, self._load.mistakes)

    def _with_ray_defaults(self, block: Block) -> Block:
        defaults = None if "ray" in self._reader.broken else self._tree.get("ray")
        own = block.get("ray")
        if defaults is None or (own is True and defaults is False):
            return block
        if own is not None and own is not True and not isinstance(own, Block):
            return block
        merged = defaults if own is None or own is True else merge(defaults, own)
        copy = block.copy()
        copy.put("ray", merged, block.places.get("ray", self._tree.places["ray"]))
        return copy

    def _build(
        self,
        model: EntryBlock,
        block: Block,
        place: Place,
        above: tuple[Step, ...],
        choice: Combination,
        variant: str,
        problems: tuple[str, ...],
    ) -> Entry:
        base, base_problems = self._script_base_dir(block, above)
        self._check_requirements(model, block, above)
        unset = self._load.unset(block, place, above, self._tree) if self._load.variables.is_named else ()
        return Entry(
            name=model.name,
            place=place,
            file=self._file,
            script=model.script,
            asv=model.asv or "",
            args=self._split(block, above) if model.args else (),
            axes=choice,
            variant=variant,
            marks=tuple(dict.fromkeys([*self._block.marks, *model.marks])),
            script_base_dir=base,
            directories=self._reader.directories_of(block.places["script"]),
            python=model.python,
            env={**self._block.env, **model.env} if self._block.env else model.env,
            secrets=tuple(dict.fromkeys([*self._block.secrets, *model.secrets])),
            timeout_s=self._timeout(model, block, above),
            repeat=model.repeat,
            warmup=model.warmup,
            retries=model.retries,
            ray=self._ray(model),
            delete_scratch=_first(model.delete_scratch, self._block.delete_scratch, default=True),
            gpu_mem_use_warning_threshold=_first(
                model.gpu_mem_use_warning_threshold, self._block.gpu_mem_use_warning_threshold, default=None
            ),
            requires=tuple(model.requires),
            requires_programs=tuple(model.requires_programs),
            gpu_check=model.gpu_check,
            requirements=tuple(_requirement(requirement) for requirement in model.requirements),
            sink_data=self._sink_data(model, block, above),
            problems=tuple(dict.fromkeys([*self._reader.problems, *unset, *base_problems, *problems])),
        )

    def _tell_missing_fields(self, block: Block, names: set[str], variant: str, above: tuple[Step, ...]) -> None:
        """Report placeholders that name a field which this combination's values lack.

        Named values of an axis may have different fields.
        """
        if not names:
            return
        for path, text in _texts(block):
            for name in names.intersection(placeholders.names_in(text)):
                self._wrong(block, path, f"{{{name}}} is missing in the combination {variant!r}", above)

    def _text_problems(self, block: Block, own: set[str], above: tuple[Step, ...]) -> tuple[str, ...]:
        """Check the placeholders that are filled in later.

        Return the problems that keep the entry from running; mistakes are added to the load.
        """
        problems: list[str] = []
        names = self._reader.names
        known = {*own, placeholders.ENTRY_DIR, placeholders.OLD_ENTRY_DIR}
        for path, text in _texts(block):
            if "{" not in text:
                continue
            for mistake in names.mistakes_in(text, known):
                self._wrong(block, path, mistake, above)
            problems += names.problems_in(text, own)
            if not self._told_old_name and placeholders.OLD_ENTRY_DIR in placeholders.names_in(text):
                self._warn_of_old_name(place_of(block, path, block.places["name"]))
        return tuple(problems)

    def _warn_of_old_name(self, place: Place) -> None:
        self._told_old_name = True
        self._load.warnings.append(f"{place}: `{{session}}` is deprecated; write `{{session_entry_dir}}`")

    def _check_requirements(self, model: EntryBlock, block: Block, above: tuple[Step, ...]) -> None:
        """Report a metric that has the same kind of bound twice. Several requirements with other bounds are allowed."""
        first: dict[tuple[str, str], int] = {}
        for index, requirement in enumerate(model.requirements):
            for bound in (*BOUNDS, *GATES):
                if getattr(requirement, bound) is None:
                    continue
                known = first.setdefault((requirement.metric, bound), index)
                if known != index:
                    place = block["requirements"].places[known]
                    problem = f"{bound} of the metric {requirement.metric!r} is already set at {place}"
                    self._wrong(block, ("requirements", index), problem, above)

    def _timeout(self, model: EntryBlock, block: Block, above: tuple[Step, ...]) -> float:
        defaults = self._block
        highest = defaults.max_timeout_s
        default = DEFAULT_TIMEOUT_S if highest is None else min(DEFAULT_TIMEOUT_S, highest)
        timeout: float = _first(model.timeout_s, defaults.default_timeout_s, defaults.timeout_s, default=default)
        if highest is not None and timeout > highest:
            origin = "" if model.timeout_s is not None else " (default_timeout_s)"
            problem = f"found {timeout:g}{origin}, expected at most {highest:g} (max_timeout_s)"
            self._wrong(block, ("timeout_s",), problem, above)
        return timeout

    def _script_base_dir(self, block: Block, above: tuple[Step, ...]) -> tuple[str | None, tuple[str, ...]]:
        base = block.get("script_base_dir")
        if not isinstance(base, str):
            return self._reader.script_base_dir, ()
        return self._reader.path_of(base, block.places["script_base_dir"], (*above, "script_base_dir"))

    def _ray(self, model: EntryBlock) -> RaySettings | None:
        if model.ray is False:
            return None
        block = model.ray if isinstance(model.ray, RayBlock) else RayBlock()
        size = _first(block.object_store_size, model.object_store_size, self._block.object_store_size, default=None)
        return RaySettings(
            num_cpus=block.num_cpus,
            num_gpus=block.num_gpus,
            memory=block.memory,
            resources=block.resources,
            object_store_size=None if size == "default" else size,
            enable_object_spilling=block.enable_object_spilling,
            include_dashboard=block.include_dashboard,
            include_log_monitor=block.include_log_monitor,
            reuse=block.reuse,
            address=block.address,
            start_retries=block.start_retries,
        )

    def _sink_data(self, model: EntryBlock, block: Block, above: tuple[Step, ...]) -> Mapping[str, Mapping[str, Any]]:
        found: dict[str, Mapping[str, Any]] = {}
        for index, item in enumerate(model.sink_data):
            data = {key: plain(value) for key, value in item.items()}
            name = as_text(data.pop("name", None))
            if not isinstance(name, str):
                problem = "is missing" if name is None else f"found {describe(name)}, expected text"
                self._wrong(block, ("sink_data", index, "name"), problem, above)
            elif name in found:
                self._wrong(block, ("sink_data", index), f"the sink {name!r} is listed a second time", above)
            else:
                found[name] = data
        return found


def _first(*values: Any, default: Any) -> Any:
    return next((value for value in values if value is not None), default)


def _requirement(block: RequirementBlock) -> Requirement:
    return Requirement(
        metric=block.metric,
        min_value=block.min_value,
        max_value=block.max_value,
        exact_value=block.exact_value,
        tolerance=block.tolerance,
        max_regression=block.max_regression,
        max_drift=block.max_drift,
        baseline=block.baseline,
        min_history=block.min_history,
        better=block.better,
        min_effect=block.min_effect,
    )


def axis_names(choice: Combination) -> dict[str, str]:
    """Values of `{AXIS}` and `{AXIS.key}` in one combination."""
    names = {}
    for value in choice:
        names[value.axis] = value.text
        for key, inner in value.fields.items():
            names[f"{value.axis}.{key}"] = axes.text_of(inner)
    return names


def _axis_values(choice: Combination) -> dict[str, Scalar]:
    values: dict[str, Scalar] = {}
    for value in choice:
        values[value.axis] = value.value
        values.update({f"{value.axis}.{key}": inner for key, inner in value.fields.items()})
    return values


def _texts(block: Block) -> Iterator[tuple[tuple[Step, ...], str]]:
    """Yield the texts of an entry that are filled in when its run is planned."""
    for key in ("args", "script", "python"):
        if isinstance(text := block.get(key), str):
            yield (key,), text
    if isinstance(env := block.get("env"), Block):
        for name, value in env.items():
            if isinstance(value, str):
                yield ("env", name), value


def _names_of(combinations: list[Combination]) -> set[str]:
    return {name for choice in combinations for name in axis_names(choice)}


def _uses_axes(block: Block, names: set[str]) -> bool:
    """True if an axis is used in a value that is validated after it is filled in (`num_gpus: "{gpus}"`)."""
    if not names:
        return False
    if any(placeholders.fill_in_datasets(text, dict.fromkeys(names, "")) != text for _, text in _texts(block)):
        return True
    return any(
        isinstance(value, str) and "{" in value and not names.isdisjoint(placeholders.names_in(value))
        for key, part in block.items()
        if key not in _FILLED_LATER
        for _, value, _ in leaves(part, block.places[key])
    )


def name_is_taken(name: str, place: Place) -> str:
    return f"the name {name!r} is already used at {place}; names are unique in a session"


def _with_axes(block: Block, choice: Combination) -> Block:
    """Fill one combination's values into the block. A value that is just `{axis}` takes the type of the axis."""
    names, values = axis_names(choice), _axis_values(choice)

    def fill(node: Any) -> Any:
        if isinstance(node, Block):
            copy = node.copy()
            copy.update({key: fill(value) for key, value in node.items()})
            return copy
        if isinstance(node, Items):
            items = node.copy()
            items[:] = [fill(value) for value in node]
            return items
        if isinstance(node, str) and "{" in node and not isinstance(node, Undefined):
            whole = _WHOLE.fullmatch(node)
            return values[whole[1]] if whole and whole[1] in values else placeholders.fill(node, names=names)
        return node

    filled = block.copy()
    filled.update({key: fill(value) for key, value in block.items() if key not in _FILLED_LATER})
    for (first, *inner), text in _texts(block):
        key, chosen = str(first), placeholders.fill_in_datasets(text, names)
        filled[key] = _with_value(filled[key], str(inner[0]), chosen) if inner else chosen
    return filled


def _with_value(block: Block, key: str, value: str) -> Block:
    copy = block.copy()
    copy[key] = value
    return copy
