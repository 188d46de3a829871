"""A benchmark of many packages from a local index, in two versions each. Some of the newer versions are slower.

Each package does real work: it adds numbers for a time. The script takes the fastest of several repeats.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path

from plugins_of_others import WITHOUT_OTHERS
from scratch_repository import environment
from tiny_wheels import make_wheel

FAST, SLOW = 100, 100_000
SOURCE = """
{imports}
LOOPS = {loops}

def step():
    return sum(range(LOOPS{more}))
"""
SCRIPT = """import importlib
import importlib.util
import json
import sys
import time
from pathlib import Path

names = {names!r}
modules = [importlib.import_module(name) for name in names if importlib.util.find_spec(name)]


def once():
    began = time.perf_counter()
    for module in modules:
        module.step()
    return time.perf_counter() - began


results = Path(sys.argv[sys.argv.index("--benchmark-results-path") + 1])
(results / "params.json").write_text("{{}}")
(results / "metrics.json").write_text(json.dumps({{"work_time_s": min(once() for _ in range(10))}}))
"""
MATRIX = "ray: false\nentries:\n  - {name: work, script: work.py}\n"


@dataclass(frozen=True)
class PackageProject:
    """Two lists of packages, `a.txt` and `b.txt`, and a benchmark that uses all of them."""

    folder: Path
    index: Path

    def environment(self) -> dict[str, str]:
        """Return variables with which pip and uv know the local index alone, and nothing is kept from other tests."""
        kept = {name: value for name, value in environment().items() if not name.startswith(("PIP_", "UV_"))}
        cache = {"XDG_CACHE_HOME": str(self.folder / "cache")}
        return {**kept, **cache, "PIP_CONFIG_FILE": str(self.folder / "pip.conf")}

    def lists(self, before: Mapping[str, str], after: Mapping[str, str]) -> None:
        for name, versions in (("a.txt", before), ("b.txt", after)):
            lines = [f"{package}=={version}\n" for package, version in versions.items()]
            (self.folder / name).write_text("".join(lines))


def make_package_project(folder: Path, names: Collection[str], slow: Collection[str]) -> PackageProject:
    """Make it. In version 2.0, the packages in `slow` are slow."""
    project = PackageProject(folder, folder / "index")
    project.index.mkdir(parents=True)
    (folder / "pip.conf").write_text(f"[global]\nno-index = true\nfind-links = {project.index}\n")
    for name in names:
        for version, loops in (("1.0", FAST), ("2.0", SLOW if name in slow else FAST)):
            make_wheel(project.index, name, version, SOURCE.format(imports="", loops=loops, more=""))
    (folder / "benchmarks").mkdir()
    (folder / "benchmarks" / "work.py").write_text(SCRIPT.format(names=sorted(names)))
    (folder / "benchmarks" / "matrix.yaml").write_text(MATRIX)
    (folder / "pytest.ini").write_text(f"[pytest]\naddopts = {' '.join(WITHOUT_OTHERS)}\n")
    project.lists(dict.fromkeys(names, "1.0"), dict.fromkeys(names, "2.0"))
    return project


def make_slow_together(project: PackageProject, first: str, second: str) -> None:
    """Make two packages slow only if both are in version 2.0."""
    make_wheel(project.index, first, "2.0", SOURCE.format(imports="", loops=FAST, more="") + "NEW = True\n")
    ask = f"import importlib\nFAST_HERE = not hasattr(importlib.import_module({first!r}), 'NEW')"
    more = f" if FAST_HERE else {SLOW}"
    make_wheel(project.index, second, "2.0", SOURCE.format(imports=ask, loops=FAST, more=more))
