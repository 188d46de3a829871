"""What docs/extending.md writes works as it stands there; and what others write and is broken fails no run."""

from __future__ import annotations

import re
import socket
from pathlib import Path

import pytest
from end_to_end.conftest import Project

pytestmark = pytest.mark.slow

PAGE = (Path(__file__).parents[2] / "docs" / "extending.md").read_text()
FILES = dict(re.findall(r"^```(?:python|yaml)\n# ([\w.]+)\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL))
READS = """
import json, os, sys, time
from pathlib import Path

kept = [open(__file__) for _ in range(50)]
time.sleep(0.5)
results = Path(sys.argv[sys.argv.index("--benchmark-results-path") + 1])
(results / "params.json").write_text(json.dumps({"address": os.environ.get("RAY_ADDRESS")}))
(results / "metrics.json").write_text(json.dumps({"is_success": True}))
"""


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project(tmp_path)


@pytest.mark.parametrize("where", [(), ("--bench-fleet", "local", "--bench-fleet-cpus", "2")], ids=["here", "fleet"])
def test_the_examples_of_the_page_make_one_project(project: Project, where: tuple[str, ...]) -> None:
    for name, text in FILES.items():
        project.write("matrix.yaml" if name == "extended_matrix.yaml" else name, text)
    project.write("reads.py", READS)
    project.write("breaks.py", "raise MemoryError")
    with socket.create_server(("127.0.0.1", 0)) as lab:
        address = f"127.0.0.1:{lab.getsockname()[1]}"
        outcome = project.run(*where, "--bench-sink", "./failures.py:Failures", LAB_RAY_ADDRESS=address)
    reads = outcome.json("reads", "results.json")
    assert reads["verdict"] == "passed", reads["error"]
    assert reads["params"]["address"] == address
    assert reads["metrics"]["most_open_files"] >= 50
    assert "address" not in outcome.json("breaks", "results.json")["params"]
    failures = project.session_dir / "failures.txt"
    assert failures.read_text() == "breaks crashed out of memory on host\n"
    assert re.search(r"^s: 2 runs, \d+ s of runs$", outcome.output, re.MULTILINE)


@pytest.mark.parametrize("where", [(), ("--bench-fleet", "local", "--bench-fleet-cpus", "2")], ids=["here", "fleet"])
def test_a_broken_sampler_is_a_warning_and_a_broken_provider_an_error_of_its_run(
    project: Project, where: tuple[str, ...]
) -> None:
    project.write(
        "conftest.py",
        """
        from dataclasses import replace

        class Breaks:
            def __init__(self, run): pass
            def start(self): raise OSError("no such meter")
            def stop(self): pass
            def metrics(self): return {"fine": 1, "odd": "text"}
            def warnings(self): return ("said by itself",)

        class NoCluster:
            def start(self, request): raise RuntimeError("the lab is closed")
            def close(self): pass

        def pytest_bench_plan(item, plan):
            here = f"{__file__}:"
            return replace(plan, samplers=(here + "Breaks", "nobody"), cluster_provider=here + "NoCluster")

        def pytest_bench_session_summary(runs):
            raise ValueError("nothing to say")
        """,
    )
    project.matrix(project.entry("plain"), project.entry("on_ray", ray={"num_cpus": 1}))
    outcome = project.run(*where)
    plain, on_ray = outcome.json("plain", "results.json"), outcome.json("on_ray", "results.json")
    assert (plain["verdict"], plain["metrics"]["fine"], "odd" in plain["metrics"]) == ("passed", 1, False)
    said = "\n".join(plain["warnings"])
    for expected in ("OSError: no such meter", "odd is not a number", "said by itself", "unknown sampler 'nobody'"):
        assert expected in said
    assert (on_ray["verdict"], on_ray["cause"]) == ("error", "cluster")
    assert on_ray["error"].endswith("conftest.py:NoCluster: RuntimeError: the lab is closed")
    assert outcome.has("warning: pytest_bench_session_summary: ValueError: nothing to say")


def test_the_profiler_of_the_page_profiles_a_script(project: Project) -> None:
    project.write("traced.py", FILES["traced.py"])
    project.matrix(project.entry("plain"))
    outcome = project.run("--bench-profile", "./traced.py:Traced")
    assert outcome.code == 0, outcome.output
    assert "the profiler" not in outcome.output
    folder = project.session_dir / "plain" / "artifacts" / "profiles" / "Traced"
    assert "argparse:ArgumentParser.__init__ 1\n" in (folder / "stacks.txt").read_text()
    assert (folder / "notes.txt").read_text() == "made by trace\n"
