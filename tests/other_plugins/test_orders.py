"""pytest-randomly: the order of runs is that of the seed; names, histories and resuming do not depend on it."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from other_plugins.conftest import Repository

SOME = ("-k", "plain or axes or sorting", "benchmarks")


def seed(number: int) -> tuple[str, ...]:
    return ("-p", "randomly", "--randomly-seed", str(number))


def test_the_seed_decides_the_order_and_nothing_else(repository: Repository) -> None:
    for number in (1, 1, 2):
        repository.measure(*seed(number), *SOME)
    rows = repository.rows("name, definition_hash")
    first, again, other = rows[:7], rows[7:14], rows[14:]
    assert first == again
    assert first != other
    assert sorted(first) == sorted(other)


def test_a_session_is_resumed_in_another_order(repository: Repository) -> None:
    stopped = repository.run(
        *("--benchmark", "--bench-session", "s", *seed(1), "--maxfail", "1", "-k", "plain or axes or crashes"),
        "benchmarks/matrix.yaml",
    )
    assert stopped.returncode == 1
    before = repository.rows("name")
    repository.measure(
        *seed(2), "--bench-resume=finished", "-k", "plain or axes or crashes", "benchmarks/matrix.yaml", expect=1
    )
    assert sorted(repository.rows("name")) == ["axes[1-a]", "axes[1-b]", "axes[2-a]", "axes[2-b]", "crashes", "plain"]
    assert len(before) < 6


def test_workers_run_each_entry_once(repository: Repository) -> None:
    repository.measure(*seed(1), "-n", "2", *SOME)
    assert len(repository.rows("name")) == len(set(repository.rows("name"))) == 7


def test_a_benchmark_draws_the_same_numbers_whether_it_is_recorded_or_not(repository: Repository) -> None:
    repository.write(
        "benchmarks/test_drawn.py",
        """
import random
from pathlib import Path


def test_draws(benchmark_time):
    with benchmark_time:
        numbers = [random.random() for _ in range(3)]
    with Path(__file__).with_name("drawn").open("a") as file:
        print(*numbers, file=file)
""",
    )
    repository.measure(*seed(1), "benchmarks/test_drawn.py")
    repository.run(*seed(1), "benchmarks/test_drawn.py")
    one, other = (repository.folder / "benchmarks" / "drawn").read_text().splitlines()
    assert one == other
