"""What all tests share: the pytest processes they start come up quickly."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from plugins_of_others import WITHOUT_OTHERS

ADDOPTS = ("PYTEST_ADDOPTS", " ".join(WITHOUT_OTHERS))


@pytest.fixture(scope="session", autouse=True)
def without_plugins_of_others() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(*ADDOPTS)
        yield


@pytest.fixture
def pytester(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> pytest.Pytester:
    """pytest's own takes PYTEST_ADDOPTS away."""
    monkeypatch.setenv(*ADDOPTS)
    return pytester
