"""A matrix of more than a thousand entries is collected while garbage collection rests."""

from __future__ import annotations

import sys

import pytest

SAYS = """
import gc

def pytest_collectstart():
    print("while collecting:", gc.isenabled())

def pytest_sessionfinish():
    print("afterwards:", gc.isenabled(), "set aside:", gc.get_freeze_count() > 10_000)
"""


@pytest.mark.parametrize(("entries", "rests"), [(2, False), (1_000, True)])
def test_garbage_collection_rests_while_a_large_matrix_is_collected(
    pytester: pytest.Pytester, entries: int, rests: bool
) -> None:
    lines = [f"  - {{name: entry_{number}, script: work.py}}\n" for number in range(entries)]
    pytester.path.joinpath("matrix.yaml").write_text("entries:\n" + "".join(lines))
    pytester.makeconftest(SAYS)
    result = pytester.run(sys.executable, "-m", "pytest", "--collect-only", "-q", "-s", "matrix.yaml")
    assert result.ret == 0
    assert f"while collecting: {not rests}" in result.outlines
    assert "afterwards: True set aside: True" in result.outlines


def test_it_stays_off_for_who_has_switched_it_off(pytester: pytest.Pytester) -> None:
    lines = [f"  - {{name: entry_{number}, script: work.py}}\n" for number in range(1_000)]
    pytester.path.joinpath("matrix.yaml").write_text("entries:\n" + "".join(lines))
    pytester.makeconftest(SAYS + "\ngc.disable()\n")
    result = pytester.run(sys.executable, "-m", "pytest", "--collect-only", "-q", "-s", "matrix.yaml")
    assert "afterwards: False set aside: False" in result.outlines
