"""Values are found for the node ids that pytest-repeat makes of an item, and for no others."""

from __future__ import annotations

import pytest

from curator_bench.collection.multiplied import ByNodeId

KNOWN = ByNodeId({"m.yaml::plain": 1, "m.yaml::axes[1-2]": 2, "m.yaml::deep[a-3-4]": 3})


@pytest.mark.parametrize(
    ("nodeid", "value"),
    [
        ("m.yaml::plain", 1),
        ("m.yaml::plain[1-2]", 1),
        ("m.yaml::axes[1-2]", 2),
        ("m.yaml::axes[1-2-10-12]", 2),
        ("m.yaml::deep[a-3-4]", 3),
        ("m.yaml::deep[a-3-4-2-2]", 3),
    ],
)
def test_each_repetition_has_the_value_of_its_item(nodeid: str, value: int) -> None:
    assert KNOWN[nodeid] == value


@pytest.mark.parametrize("nodeid", ["m.yaml::other[1-2]", "m.yaml::plain[a]", "m.yaml::axes[1]", "m.yaml::deep[a-3]"])
def test_other_items_have_none(nodeid: str) -> None:
    assert nodeid not in KNOWN
    assert KNOWN.get(nodeid) is None


def test_it_lists_the_items_themselves() -> None:
    assert list(KNOWN) == ["m.yaml::plain", "m.yaml::axes[1-2]", "m.yaml::deep[a-3-4]"]
