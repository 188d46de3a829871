"""Suites of asv as entries: an entry block with `asv: PATH` stands for one block per benchmark of the suite.

A suite is listed in a process of its own, as its modules import the package under test. The list is kept until the
suite or what is installed beside it changes.
"""

from __future__ import annotations

import hashlib
import os
import re
import shlex
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from curator_bench.errors import BenchError
from curator_bench.files.codec import from_document, parsed
from curator_bench.files.json_files import read_object, write_json
from curator_bench.matrix.placeholders import NAME, RESERVED
from curator_bench.matrix.tree import Block
from curator_bench.values import Place

PROGRAM = Path(__file__).with_name("asv_program.py")
CONF = "asv.conf.json"
NOT_BESIDE = ("name", "script", "script_base_dir", "args", "matrix", "exclude", "include")
"""Keys of an entry that a suite itself decides."""
_LISTED_WITHIN_S = 300
_MOST_BENCHMARKS = 20_000
_SHOWN = 8
_BENCHMARK_DIR = re.compile(r'^\s*"benchmark_dir"\s*:\s*"([^"]+)"', re.MULTILINE)
_TEXT = re.compile(r"u?'(.*)'|<class '(.+)'>")
_DEFAULT_TIMEOUT = re.compile(r'^\s*"default_benchmark_timeout"\s*:\s*([0-9.]+)', re.MULTILINE)
_DEFAULT_TIMEOUT_S = 60.0
"""The time limit that asv has for benchmarks without one."""
_PER_RUN_S = 10.0
"""Time beside that of the processes that `timeout` is for: those import the module as well, this one starts them."""


@dataclass(frozen=True, slots=True)
class Benchmark:
    """A benchmark as asv lists it."""

    name: str
    param_names: tuple[str, ...] = ()
    params: tuple[tuple[str, ...], ...] = ()
    """The texts of each parameter's values."""
    rounds: int = 1
    timeout: float | None = None
    setup_cache_key: str | None = None
    """None if there is no setup_cache."""
    setup_cache_timeout: float | None = None

    def limit_s(self, timeout: float) -> float:
        """Return the time limit of a run, whose processes have asv's limit `timeout` each: rounds, and setup_cache."""
        cache = 0 if self.setup_cache_key is None else self.setup_cache_timeout or timeout
        return self.rounds * timeout + cache + _PER_RUN_S


@dataclass(frozen=True, slots=True)
class _Kept:
    """A list of benchmarks, with the state of what it was made from."""

    state: str
    benchmarks: tuple[Benchmark, ...] = ()


def folder_of_suite(path: Path) -> Path:
    """Return the folder of a suite; `path` is that folder or an asv.conf.json. Raises BenchError."""
    conf = path / CONF if (path / CONF).is_file() else path
    if conf.is_file():
        found = _BENCHMARK_DIR.search(conf.read_text("utf-8", "replace"))
        path = conf.parent / (found[1] if found else "benchmarks")
    if not (path / "__init__.py").is_file():
        below = sorted(path.glob(f"*/{CONF}"))
        near = f"; there is one in {os.path.normpath(below[0].parent)}" if below else ""
        raise BenchError(f"{path} is no suite of asv: expected a folder with __init__.py, or an {CONF}{near}")
    return Path(os.path.normpath(path))


def default_timeout_of(path: Path) -> float:
    """Return the time limit of benchmarks without one, by asv.conf.json in the folder `path` or beside it."""
    for conf in (path, path / CONF, path.parent / CONF):
        if conf.is_file() and (found := _DEFAULT_TIMEOUT.search(conf.read_text("utf-8", "replace"))):
            with suppress(ValueError):
                return float(found[1])
    return _DEFAULT_TIMEOUT_S


def benchmarks_of(suite: Path, python: str, env: Mapping[str, str]) -> tuple[Benchmark, ...]:
    """List the benchmarks of a suite with this interpreter and environment. Raises BenchError."""
    state = _state(suite, python, env)
    file = _kept_file(suite, python)
    with suppress(ValueError):
        kept = from_document(_Kept, read_object(file))
        if kept.state == state:
            return kept.benchmarks
    found = _listed(suite, python, env)
    with suppress(OSError):  # it is listed again next time
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        write_json(file, asdict(_Kept(state, found)))
    return found


def _kept_file(suite: Path, python: str) -> Path:
    cache = os.environ.get("XDG_CACHE_HOME", "")
    root = Path(cache) if os.path.isabs(cache) else Path.home() / ".cache"
    key = hashlib.sha256(f"{suite}\0{python}".encode("utf-8", "surrogatepass")).hexdigest()[:16]
    return root / "curator-bench" / "asv" / f"{key}.json"


def _state(suite: Path, python: str, env: Mapping[str, str]) -> str:
    """Return a hash of everything whose change may change the list: files of the suite, and installed packages."""
    files = sorted(file for file in suite.rglob("*.py"))
    places = [*files, PROGRAM, Path(python), *Path(python).parent.parent.glob("lib/python*/site-packages")]
    times = [(str(place), _time_of(place)) for place in places]
    text = repr((times, sorted((name, value) for name, value in env.items() if name.startswith("PYTHON"))))
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def _time_of(place: Path) -> int:
    try:
        return place.stat().st_mtime_ns
    except OSError:
        return 0


def _listed(suite: Path, python: str, env: Mapping[str, str]) -> tuple[Benchmark, ...]:
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "benchmarks.json")
        words = [python, str(PROGRAM), "list", str(suite), str(file)]
        try:
            done = subprocess.run(
                words, cwd=folder, env=dict(env), capture_output=True, timeout=_LISTED_WITHIN_S, check=False
            )
        except subprocess.TimeoutExpired:
            raise BenchError(f"listing the benchmarks of {suite} took more than {_LISTED_WITHIN_S} s") from None
        except (OSError, ValueError) as error:
            raise BenchError(f"{python} could not be started: {error}") from None
        if done.returncode:
            raise BenchError(_why_not_listed(suite, python, done.stderr.decode("utf-8", "replace")))
        listed = parsed(file.read_bytes())
    if not listed:
        raise BenchError(f"{suite} has no benchmarks")
    if len(listed) > _MOST_BENCHMARKS:
        raise BenchError(f"{suite} has {len(listed):,} benchmarks; at most {_MOST_BENCHMARKS:,} are read")
    return tuple(sorted(map(_benchmark, listed), key=lambda one: one.name))


def _why_not_listed(suite: Path, python: str, said: str) -> str:
    last = said.strip().splitlines()[-1] if said.strip() else "it said nothing"
    if "No module named 'asv_runner'" in last:
        return f"{python} has no asv_runner, which runs the benchmarks of asv: `{python} -m pip install asv_runner`"
    return f"the benchmarks of {suite} could not be listed by {python}: {last}"


def _benchmark(listed: Mapping[str, Any]) -> Benchmark:
    return Benchmark(
        name=listed["name"],
        param_names=tuple(map(str, listed["param_names"])),
        params=tuple(tuple(map(str, values)) for values in listed["params"]),
        rounds=int(listed.get("rounds") or 1),
        timeout=listed.get("timeout"),
        setup_cache_key=listed.get("setup_cache_key"),
        setup_cache_timeout=listed.get("setup_cache_timeout"),
    )


def blocks_of(
    written: Block, suite: Path, benchmarks: Sequence[Benchmark], place: Place, default_timeout: float | None = None
) -> Iterator[Block]:
    """Yield a block of an ordinary entry for each benchmark. Its other keys are those of the written block.

    Benchmarks without `timeout` have the default one; without that, the file's.
    """
    for one in benchmarks:
        block = written.copy()
        for key in ("asv", "bench", "not_bench"):
            if key in block:
                block.take(key)
        axes = _axes(one, place)
        own = {
            "name": one.name,
            "asv": str(suite),
            "script": _module_file(suite, one.name),
            "script_base_dir": str(suite.parent),
            "args": " ".join([shlex.quote(one.name), *(f"{{{axis}.value}}" for axis in axes)]),
            **({"matrix": axes} if axes else {}),
            **({} if "ray" in block else {"ray": False}),
        }
        timeout = default_timeout if one.timeout is None else one.timeout
        if timeout is not None and "timeout_s" not in block:
            own["timeout_s"] = one.limit_s(timeout)
        for key, value in own.items():
            block.put(key, value, place)
        yield block


def _module_file(suite: Path, name: str) -> str:
    """Return the file of a benchmark, relative to the folder that the suite is in; `__init__.py` if it is not known."""
    parts = name.split(".")
    modules = (suite.joinpath(*parts[:end]).with_suffix(".py") for end in range(len(parts) - 1, 0, -1))
    found = next((module for module in modules if module.is_file()), suite / "__init__.py")
    return str(found.relative_to(suite.parent))


def _axes(benchmark: Benchmark, place: Place) -> Block:
    """Return the parameters as axes, whose values have asv's text as field `value`."""
    axes = Block()
    for number, (name, values) in enumerate(zip(benchmark.param_names, benchmark.params, strict=True), 1):
        axis = Block()
        for text, value in zip(_texts(values), values, strict=True):
            fields = Block()
            fields.put("value", value, place)
            axis.put(text, fields, place)
        axes.put(_axis_name(name, number, axes), axis, place)
    return axes


def _axis_name(name: str, number: int, taken: Mapping[str, object]) -> str:
    plain = re.sub(r"\W+", "_", name, flags=re.ASCII).strip("_")
    is_fit = NAME.match(plain) and plain not in RESERVED and plain not in taken
    return plain if is_fit else f"param{number}"


def _texts(values: Sequence[str]) -> Sequence[str]:
    """Return the values as asv shows them: texts and classes without quotes, unless two would then be the same."""
    plain = [(match[1] or match[2] or value) if (match := _TEXT.fullmatch(value)) else value for value in values]
    return plain if len(set(plain)) == len(plain) else values


def chosen(benchmarks: Sequence[Benchmark], pattern: str, *, is_wanted: bool = True) -> tuple[Benchmark, ...]:
    """Return the benchmarks whose names match a regular expression, as `asv run --bench` does, or all others.

    Raises BenchError if none matches, or none is left.
    """
    try:
        wanted = re.compile(pattern)
    except re.error as error:
        raise BenchError(f"expected a regular expression: {error}") from None
    matching = {one.name for one in benchmarks if wanted.search(one.name)}
    if not matching:
        names = [one.name for one in benchmarks]
        shown = [*names[:_SHOWN], *(["…"] if len(names) > _SHOWN else [])]
        raise BenchError(f"no benchmark matches {pattern!r}; there are: {', '.join(shown)}")
    found = tuple(one for one in benchmarks if (one.name in matching) is is_wanted)
    if not found:
        raise BenchError(f"every benchmark matches {pattern!r}, so none is left")
    return found
