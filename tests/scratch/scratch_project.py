"""A project as a user has one: an installable package, unit tests, a benchmark, and two branches, one of them slower.

Its build backend is in the repository and needs nothing, so that installing it asks no index.
"""

from __future__ import annotations

from pathlib import Path

from scratch_repository import ScratchRepository

BACKEND = """import os
import zipfile


def build_wheel(folder, config_settings=None, metadata_directory=None):
    name, about = "pkg-1.0-py3-none-any.whl", "pkg-1.0.dist-info"
    with zipfile.ZipFile(os.path.join(folder, name), "w") as wheel:
        for module in os.listdir("src/pkg"):
            if module.endswith(".py"):
                wheel.write(f"src/pkg/{module}", f"pkg/{module}")
        wheel.writestr(f"{about}/METADATA", "Metadata-Version: 2.1\\nName: pkg\\nVersion: 1.0\\n")
        wheel.writestr(f"{about}/WHEEL", "Wheel-Version: 1.0\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n")
        wheel.writestr(f"{about}/RECORD", "")
    return name
"""
PYPROJECT = """[build-system]
requires = []
build-backend = "backend"
backend-path = ["build_here"]
[project]
name = "pkg"
version = "1.0"
"""
SCRIPT = """import json
import sys
from pathlib import Path

from pkg import work

results = Path(sys.argv[sys.argv.index("--benchmark-results-path") + 1])
runs = len(list(results.parents[2].parent.iterdir()))  # each round has a session
(results / "params.json").write_text("{}")
(results / "metrics.json").write_text(json.dumps({"work_time_s": work() * (1 + 0.002 * (runs % 4))}))
"""
MATRIX = "ray: false\nentries:\n  - {name: work, script: work.py}\n"
UNIT_TEST = "from pkg import work\n\n\ndef test_work():\n    assert work() < 1\n"


def make_project(folder: Path) -> ScratchRepository:
    """Branch `main` takes 0.1 s, as its clock has it; branch `slow`, which is checked out, takes 0.12 s."""
    project = ScratchRepository(folder)
    files = {
        ".gitignore": "results\n*.db*\n__pycache__\n",
        "pyproject.toml": PYPROJECT,
        "build_here/backend.py": BACKEND,
        "benchmarks/matrix.yaml": MATRIX,
        "benchmarks/work.py": SCRIPT,
        "tests/test_work.py": UNIT_TEST,
    }
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    project.git("init", "--quiet")
    takes(project, 0.1)
    project.git("add", "--all")
    project.git("commit", "--quiet", "--message", "Fast")
    project.git("checkout", "--quiet", "-b", "slow")
    takes(project, 0.12)
    project.git("commit", "--quiet", "--all", "--message", "Slow")
    return project


def takes(project: ScratchRepository, seconds: float) -> None:
    package = project.folder / "src" / "pkg"
    package.mkdir(parents=True, exist_ok=True)
    (package / "__init__.py").write_text(f"def work():\n    return {seconds}\n")
