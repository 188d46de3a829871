"""What the plugin costs a project that does not use it, and what it says of itself."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import curator_bench


def test_a_project_that_does_not_use_it_imports_nothing_more(tmp_path: Path) -> None:
    tmp_path.joinpath("test_mine.py").write_text("def test_it(): ...")
    program = (
        "import json, sys, pytest\n"
        "pytest.main(['-q', '-p', 'no:cacheprovider', *sys.argv[1:]])\n"
        "print('\\n' + json.dumps(sorted({name.partition('.')[0] for name in sys.modules})))\n"
    )

    def modules(*arguments: str) -> set[str]:
        output = subprocess.run(
            [sys.executable, "-c", program, *arguments], cwd=tmp_path, check=True, capture_output=True, text=True
        ).stdout
        return set(json.loads(output.splitlines()[-1]))

    more = modules() - modules("-p", "no:curator_bench") - {"curator_bench"}
    assert more <= set(sys.stdlib_module_names)


@pytest.mark.parametrize(("options", "has_benchmarks"), [(["--benchmark"], True), ([], False)])
def test_garbage_is_collected_after_the_start_and_what_a_session_keeps_is_not_searched(
    options: list[str], has_benchmarks: bool, tmp_path: Path
) -> None:
    tmp_path.joinpath("test_mine.py").write_text(
        "import gc\n"
        "def test_it():\n"
        "    assert gc.isenabled()\n"
        f"    assert (gc.get_freeze_count() > 10_000) is {has_benchmarks}\n"
    )
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "test_mine.py", *options]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def test_pytest_does_not_rewrite_the_modules_of_an_installed_plugin(tmp_path: Path) -> None:
    site, package = tmp_path / "site", Path(curator_bench.__file__).parent
    shutil.copytree(package, site / "curator_bench", ignore=shutil.ignore_patterns("__pycache__"))
    installed = site / "curator_bench-0.1.0.dist-info"
    installed.mkdir()
    (installed / "METADATA").write_text("Metadata-Version: 2.1\nName: curator-bench\nVersion: 0.1.0\n")
    (installed / "entry_points.txt").write_text("[pytest11]\ncurator_bench = curator_bench.plugin\n")
    (installed / "RECORD").write_text("".join(f"{path.relative_to(site)},,\n" for path in site.rglob("*.py")))
    project = tmp_path / "project"
    project.mkdir()
    (project / "test_mine.py").write_text("import curator_bench\ndef test_it(): print(curator_bench.__file__)")
    env = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    command = [sys.executable, "-m", "pytest", "-s"]
    said = subprocess.run(
        command, cwd=project, env={**env, "PYTHONPATH": str(site)}, check=True, capture_output=True, text=True
    ).stdout
    assert str(site) in said
    compiled = [path.name for path in (site / "curator_bench").rglob("*.pyc")]
    assert [name for name in compiled if name.startswith("plugin.")]
    rewritten = {name.partition(".")[0] for name in compiled if "-pytest-" in name}
    assert rewritten <= {"__init__", "package"}  # of the package itself, which says so only once it is imported


def test_help_has_every_option_in_groups_of_their_own(pytester: pytest.Pytester) -> None:
    result = pytester.runpytest("--help")
    for option in ("--benchmark ", "--bench-matrix", "--bench-datasets", "--bench-session", "--bench-results"):
        result.stdout.fnmatch_lines([f"*{option}*"])
    for option in ("--bench-sink", "--bench-reason", "--bench-strict", "--bench-entries", "bench_files"):
        result.stdout.fnmatch_lines([f"*{option}*"])
    for group in ("recording", "matrices", "sessions, results and sinks", "regressions", "the fleet"):
        result.stdout.fnmatch_lines([f"benchmarks*: {group}:"])
