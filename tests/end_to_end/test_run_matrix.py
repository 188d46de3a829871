"""A matrix run as its users run it: what they see for each verdict, in every mode, and what is left on disk."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
import xml.etree.ElementTree as ElementTree
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from end_to_end.conftest import Outcome, Project

VERDICTS = {
    "passes": "passed",
    "misses": "failed",
    "says_no": "failed",
    "crashes": "crashed",
    "times_out": "timeout",
    "lacks_a_variable": "error",
    "lacks_data": "error",
    "is_skipped": "skipped",
}


def all_verdicts(project: Project) -> None:
    """One entry for each verdict but `interrupted`."""
    numbers = """--metrics '{"throughput_docs_per_sec": 120.5, "num_removed": 7, "dedup": {"recall": 0.5}}'"""
    bounds: list[dict[str, Any]] = [
        {"metric": "throughput_docs_per_sec", "min_value": 200},
        {"metric": "num_removed", "exact_value": 7},
        {"metric": "troughput_docs_per_sec", "min_value": 1},
    ]
    project.matrix(
        project.entry("passes", numbers, requirements=bounds[1:2]),
        project.entry("misses", numbers, requirements=bounds),
        project.entry("says_no", """--metrics '{"is_success": false}'"""),
        project.entry("crashes", "--say 'out of luck' --exit 3"),
        project.entry("times_out", "--sleep 600", timeout_s=1),
        project.entry("lacks_a_variable", "${NOWHERE_SET}"),
        project.entry("lacks_data", "--say {dataset:corpus,jsonl}"),
        project.entry("is_skipped", requires=["no_such_package"]),
        datasets=[{"name": "corpus", "formats": [{"type": "jsonl", "path": "/nowhere/corpus"}]}],
    )


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Outcome]:
    """The outcome of running all verdicts with some options; each way is run once for all tests."""
    from end_to_end.conftest import Project

    known: dict[tuple[str, ...], Outcome] = {}

    def run(*options: str) -> Outcome:
        if options not in known:
            project = Project(tmp_path_factory.mktemp("project"))
            all_verdicts(project)
            known[options] = project.run(f"--junitxml={project.folder}/junit.xml", *options)
        return known[options]

    return run
