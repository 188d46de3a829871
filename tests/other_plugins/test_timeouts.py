"""pytest-timeout and pytest-asyncio: an entry has its own limit; tests have pytest's; what awaits is measured."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from other_plugins.conftest import Repository


def test_an_entry_ends_at_its_own_limit_and_a_test_at_that_of_pytest(repository: Repository) -> None:
    repository.write(
        "benchmarks/limits_matrix.yaml",
        """
ray: false
results_dir: ../results
entries:
  - {name: sleeps, script: script.py, args: sleep}
  - {name: hangs, script: script.py, args: hang, timeout_s: 0.6}
""",
    )
    repository.write(
        "benchmarks/test_limits.py",
        "import time\n\n\ndef test_hangs(benchmark_time):\n    with benchmark_time:\n        time.sleep(60)\n",
    )
    options = ("--timeout", "0.4", "benchmarks/limits_matrix.yaml", "benchmarks/test_limits.py")
    output = repository.measure(*options, expect=1)
    assert repository.rows("name, verdict") == [("sleeps", "passed"), ("hangs", "timeout"), ("test_hangs", "timeout")]
    assert "stopped at timeout_s = 0.6 s" in output
    assert "TIMEOUT benchmarks/test_limits.py::test_hangs" in output


def test_a_benchmark_that_awaits_is_measured(repository: Repository) -> None:
    repository.measure("-k", "test_awaits", "benchmarks")
    ((verdict, seconds),) = repository.rows("verdict, duration")
    assert verdict == "passed"
    assert 0.1 <= seconds < 5


def test_a_benchmark_that_awaits_and_fails_is_a_failed_run(repository: Repository) -> None:
    repository.write(
        "benchmarks/test_failing.py",
        "async def test_fails(record_metric):\n    record_metric('rows', 3)\n    assert not 'met'\n",
    )
    repository.measure("--asyncio-mode", "auto", "benchmarks/test_failing.py", expect=1)
    assert repository.rows("name, verdict") == [("test_fails", "failed")]
