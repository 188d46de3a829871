"""What the plugin costs a project that does not use it, and what it says of itself."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest


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


def test_help_has_every_option_in_groups_of_their_own(pytester: pytest.Pytester) -> None:
    result = pytester.runpytest("--help")
    for option in ("--benchmark ", "--bench-matrix", "--bench-datasets", "--bench-session", "--bench-results"):
        result.stdout.fnmatch_lines([f"*{option}*"])
    for option in ("--bench-sink", "--bench-reason", "--bench-strict", "--bench-entries", "bench_files"):
        result.stdout.fnmatch_lines([f"*{option}*"])
    for group in ("recording", "matrices", "sessions, results and sinks", "regressions", "the fleet"):
        result.stdout.fnmatch_lines([f"benchmarks*: {group}:"])
