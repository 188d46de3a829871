"""Find profilers by name: ours, an entry point of a package, `module:Class`, or `./file.py:Class`."""

from __future__ import annotations

from pathlib import Path

from curator_bench import extensions
from curator_bench.errors import BenchError
from curator_bench.execution.profilers.profiler import Profiler

_OWN = {
    "py-spy": "curator_bench.execution.profilers.py_spy:PySpy",
    "memray": "curator_bench.execution.profilers.memray_profiler:Memray",
}


def profiler_class(name: str, folder: Path) -> type[Profiler]:
    """Return the class of a profiler. Files are looked for in `folder`. Raises BenchError."""
    if name in _OWN:
        found = extensions.load("profiler", _OWN[name], folder)
    else:
        found = extensions.find("profiler", name, folder, ours=_OWN)
    if not (isinstance(found, type) and issubclass(found, Profiler)):
        raise BenchError(f"the profiler {name!r} is no subclass of curator_bench.Profiler")
    return found


def check_profilers(names: tuple[str, ...], folder: Path, *, is_elsewhere: bool = False) -> None:
    """Raise BenchError if a profiler is unknown or lacks something. Files beside a matrix are left to the run.

    With `is_elsewhere`, it runs on other machines, and what it lacks there is a warning of the run.
    """
    for name in names:
        if ".py:" in name:
            continue
        missing = profiler_class(name, folder).missing()
        if missing and not is_elsewhere:
            raise BenchError(f"the profiler {name} cannot be used: {missing}")
