"""Bytes to trees: YAML (and so JSON) from libyaml's events, with limits that make hostile files harmless.

PyYAML's constructor is not used: the tree needs places, a limit on nesting (libyaml's composer overflows the C stack)
and a limit on what aliases expand to. This is also several times as fast.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import yaml

from curator_bench.errors import Mistake
from curator_bench.matrix import files
from curator_bench.matrix.files import EMPTY, NOT_A_MAPPING, Refused
from curator_bench.matrix.scalars import describe, resolve_plain
from curator_bench.matrix.tree import Block, Filled, Items, Undefined
from curator_bench.matrix.variables import Variables
from curator_bench.values import Place

MAX_NODES = 10_000_000
MAX_DEPTH = 64

# Variables in these keys stay until a run is planned. So `args` is split by shell rules first, and the value of a
# variable is never searched for variables and placeholders.
_FILLED_IN_LATER = "args"
_ALL_FILLED_IN_LATER = frozenset(["env", "environment"])
_NEVER_FILLED_IN = "secrets"  # names of variables, never their values
# Below these keys such a key is the user's own, and nothing would fill it in later.
_FILLED_IN_AT_ONCE = frozenset(
    ["matrix", "include", "exclude", "sinks", "sink_data", "mlflow", "slack", "wandb", "gdrive"]
)

_TAGS = "tag:yaml.org,2002:"
_TAGGED_TYPES: dict[str, tuple[type, ...]] = {
    "int": (int,),
    "float": (int, float),
    "bool": (bool,),
    "null": (type(None),),
}

_loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)

_COLON_HINT = " (a text with a colon and a space needs quotes, or `>-` and a new line)"
_TAB_HINT = " (indent with spaces, not with tabs)"
_VARIABLE_HINT = " (inside [ ] and { } a ${VARIABLE} needs quotes)"


class _Anchored(NamedTuple):
    """Value of an alias, the number of nodes it expands to and their depth; `scalar` is the event of a text."""

    value: Any
    nodes: int
    depth: int
    scalar: Any = None


class _Frame:
    """A mapping or list under construction, and the key whose value comes next."""

    __slots__ = ("anchor", "at_once", "depth", "key", "later", "merges", "node", "nodes_before")

    def __init__(self, node: Block | Items, anchor: str | None, nodes_before: int, above: _Frame | None) -> None:
        self.node = node
        self.key: str | None = None
        self.anchor = anchor
        self.nodes_before = nodes_before
        self.depth = 1
        self.merges = False
        self.at_once: bool = above is not None and (above.at_once or above.key in _FILLED_IN_AT_ONCE)
        self.later = above is not None and (above.key in _ALL_FILLED_IN_LATER or above.key == _NEVER_FILLED_IN)

    def is_raw(self) -> bool:
        """True if the variables of the next text are filled in later."""
        return not self.at_once and (self.later or self.key in (_FILLED_IN_LATER, _NEVER_FILLED_IN))


def read(path: Path, variables: Variables, mistakes: list[Mistake], *, shown: str) -> list[Block]:
    """Read the documents of a file as trees.

    Mistakes are added to `mistakes`; `shown` is the file's name in messages.
    """
    try:
        with files.open_text(path) as file:
            return _Builder(shown, variables).documents(file)
    except Refused as refused:
        mistakes.append(Mistake(Place(shown, refused.line), "", refused.problem))
    except yaml.YAMLError as error:
        line = _line_of(error, path)
        text = files.text_of_line(path, line) if line else b""
        mistakes.append(Mistake(Place(shown, line), "", f"not valid YAML: {_explain(error, text)}"))
    return []


def _line_of(error: yaml.YAMLError, path: Path) -> int:
    if isinstance(error, yaml.MarkedYAMLError):
        mark = error.problem_mark or error.context_mark
        return mark.line + 1 if mark else 0
    position = getattr(error, "position", None)
    return files.line_at(path, position) if isinstance(position, int) else 0


def _explain(error: yaml.YAMLError, line: bytes) -> str:
    if not isinstance(error, yaml.MarkedYAMLError):
        return str(error).splitlines()[0]
    parts = [part for part in (error.context, error.problem) if part]
    return ", ".join(parts) + _hint(str(error.problem), line)


def _hint(problem: str, line: bytes) -> str:
    if "mapping values are not allowed" in problem:
        return _COLON_HINT
    if "cannot start any token" in problem and b"\t" in line[: len(line) - len(line.lstrip()) + 1]:
        return _TAB_HINT
    return _VARIABLE_HINT if "expected ',' or" in problem and b"${" in line else ""


class _Builder:
    """Builder of the trees of one file from its events, without recursion."""

    def __init__(self, file: str, variables: Variables) -> None:
        self._file = file
        self._variables = variables
        self._plain_values: dict[str, Any] = {}
        self._place = Place(file, 0)
        self._start_over()

    def _start_over(self) -> None:
        self._root: Any = None
        self._stack: list[_Frame] = []
        self._anchors: dict[str, _Anchored] = {}
        self._open_anchors: set[str] = set()
        self._nodes = 0

    def documents(self, file: BinaryIO) -> list[Block]:
        found = [root for root in self._run(file) if root is not None]
        if not found:
            raise Refused(0, EMPTY)
        return found

    def _run(self, file: BinaryIO) -> Iterator[Block | None]:
        """Yield one document after the other; None for an empty one."""
        parser = _loader(file)
        # Event classes are matched by name: if a test run imported PyYAML twice, they are not those of its module.
        handlers: dict[str, Callable[[Any], None]] = {
            "ScalarEvent": self._scalar,
            "MappingStartEvent": self._start_mapping,
            "SequenceStartEvent": self._start_sequence,
            "MappingEndEvent": self._end,
            "SequenceEndEvent": self._end,
            "AliasEvent": self._alias,
        }
        get_event = parser.get_event
        while (event := get_event()) is not None:
            kind = type(event).__name__
            if (handler := handlers.get(kind)) is not None:
                handler(event)
            elif kind == "DocumentStartEvent":
                self._start_over()
            elif kind == "DocumentEndEvent":
                yield self._root
            elif kind == "StreamEndEvent":
                return

    def _scalar(self, event: Any) -> None:
        stack = self._stack
        raw = False
        if stack:
            frame = stack[-1]
            if type(frame.node) is Block and frame.key is None:
                self._set_key(event.value, event)
                if event.value == "<<" and event.implicit[0]:
                    frame.merges = True
                if event.anchor:
                    self._anchors[event.anchor] = _Anchored(event.value, 1, 0, event)
                return
            raw = frame.is_raw()
        self._add(self._value(event, raw), event)
        if event.anchor:
            self._anchors[event.anchor] = _Anchored(self._last, 1, 0, event)

    def _value(self, event: Any, raw: bool) -> Any:
        text: str = event.value
        plain = event.implicit[0]
        if "${" in text:
            self._variables.is_named = True
            if not raw:
                return self._filled(event)
        if event.tag is not None and not plain:
            return self._tagged(event, text)
        return self._resolve(text) if plain else text

    def _filled(self, event: Any) -> Any:
        """Fill in a text's variables.

        An unquoted text that looks like a number or a switch becomes one, unless that would lose characters.
        """
        text, missing = self._variables.fill(event.value)
        if missing:
            return Undefined.of(event.value, missing)
        if event.tag is not None and not event.implicit[0]:
            return self._tagged(event, text)
        value = resolve_plain(text) if event.implicit[0] else text
        if isinstance(value, str) or (type(value) in (int, float) and str(value) != text):
            return Filled.of(text, secret=self._variables.holds_secret(text))
        return value

    def _resolve(self, text: str) -> Any:
        values = self._plain_values
        if text in values:
            return values[text]
        value = values[text] = resolve_plain(text)
        return value

    def _tagged(self, event: Any, text: str) -> Any:
        tag = event.tag
        if tag in ("!", _TAGS + "str"):
            return text
        value = resolve_plain(text)
        if tag.startswith(_TAGS) and isinstance(value, _TAGGED_TYPES.get(tag.removeprefix(_TAGS), ())):
            return value
        raise self._refused(event, f"found the tag {_show_tag(tag)}, expected plain YAML without tags")

    def _start_mapping(self, event: Any) -> None:
        self._open(Block(), event)

    def _start_sequence(self, event: Any) -> None:
        if not self._stack:
            raise self._refused(event, f"found a list, {NOT_A_MAPPING}")
        self._open(Items(), event)

    def _open(self, node: Block | Items, event: Any) -> None:
        if event.tag is not None and event.tag not in (_TAGS + "map", _TAGS + "seq"):
            raise self._refused(event, f"found the tag {_show_tag(event.tag)}, expected plain YAML without tags")
        stack = self._stack
        self._check_depth(len(stack) + 1, event)
        frame = _Frame(node, event.anchor, self._nodes + 1, stack[-1] if stack else None)
        self._add(node, event)
        if event.anchor:
            self._open_anchors.add(event.anchor)
        stack.append(frame)

    def _end(self, event: Any) -> None:
        frame = self._stack.pop()
        if self._stack:
            self._stack[-1].depth = max(self._stack[-1].depth, frame.depth + 1)
        if frame.merges:
            assert type(frame.node) is Block
            self._merge_keys(frame.node)
        if frame.anchor:
            self._open_anchors.discard(frame.anchor)
            self._anchors[frame.anchor] = _Anchored(frame.node, self._nodes - frame.nodes_before + 1, frame.depth)

    def _alias(self, event: Any) -> None:
        if event.anchor in self._open_anchors:
            raise self._refused(event, f"*{event.anchor} is inside the block it refers to")
        if event.anchor not in self._anchors:
            raise self._refused(event, f"*{event.anchor} refers to no anchor before it")
        anchored = self._anchors[event.anchor]
        frame = self._stack[-1]
        if anchored.scalar is not None:
            if type(frame.node) is Block and frame.key is None:
                self._set_key(anchored.scalar.value, event)
                return
            value = self._value(anchored.scalar, frame.is_raw())
        else:
            value = anchored.value
        self._check_depth(len(self._stack) + anchored.depth, event)
        frame.depth = max(frame.depth, anchored.depth + 1)
        self._nodes += anchored.nodes - 1
        self._add(value, event)

    def _check_depth(self, depth: int, event: Any) -> None:
        if depth > MAX_DEPTH:
            raise self._refused(event, f"nested more than {MAX_DEPTH} deep")

    def _add(self, value: Any, event: Any) -> None:
        """Add a value under the waiting key, at the end of the list, or as the root."""
        self._nodes += 1
        if self._nodes > MAX_NODES:
            raise self._refused(event, f"its aliases expand to more than {MAX_NODES:,} nodes")
        self._last = value
        if not self._stack:
            self._set_root(value, event)
            return
        frame = self._stack[-1]
        node = frame.node
        if type(node) is Items:
            node.append(value)
            node.places.append(self._place_of(event))
            return
        assert type(node) is Block
        if frame.key is None:
            raise self._refused(event, "found a mapping or list as a key, expected text")
        if event.anchor and type(event).__name__ != "AliasEvent":
            node.anchored.add(frame.key)
        node[frame.key] = value
        frame.key = None

    def _set_root(self, value: Any, event: Any) -> None:
        if value is not None and type(value) is not Block:
            raise self._refused(event, f"found {describe(value)}, {NOT_A_MAPPING}")
        self._root = value

    def _set_key(self, key: str, event: Any) -> None:
        self._nodes += 1
        frame = self._stack[-1]
        node = frame.node
        assert type(node) is Block
        place = self._place_of(event)
        if key in node.places:
            node.repeated.append((key, place))
        node.places[key] = place
        frame.key = key

    def _merge_keys(self, block: Block) -> None:
        """Apply YAML's merge key `<<`. The block's own keys win."""
        place = block.places["<<"]
        sources = block.take("<<")
        for source in sources if type(sources) is Items else [sources]:
            if type(source) is not Block:
                raise Refused(place.line, f"found {describe(source)} under `<<`, expected a mapping or a list of them")
            for key, value in source.items():
                if key not in block:
                    block.put(key, value, source.places[key])

    def _place_of(self, event: Any) -> Place:
        """Place of an event. Values on one line share one object, because there may be millions of them."""
        line = event.start_mark.line + 1
        if self._place.line != line:
            self._place = Place(self._file, line)
        return self._place

    def _refused(self, event: Any, problem: str) -> Refused:
        return Refused(event.start_mark.line + 1, problem)


def _show_tag(tag: str) -> str:
    return "!!" + tag.removeprefix(_TAGS) if tag.startswith(_TAGS) else tag
