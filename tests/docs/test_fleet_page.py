"""The files that docs/fleet.md shows for other programs are such as those programs take."""

from __future__ import annotations

import importlib
import importlib.util
import json
import re
from pathlib import Path
from typing import Any

import yaml

PAGE = Path(__file__).parents[2] / "docs" / "fleet.md"


def shown(name: str) -> dict[str, Any]:
    found = re.search(rf"^```yaml\n# {re.escape(name)}\n(.*?)^```$", PAGE.read_text("utf-8"), re.M | re.S)
    assert found
    content: dict[str, Any] = yaml.safe_load(found[1])
    return content


def test_ray_up_takes_the_cluster_file() -> None:
    ray = importlib.util.find_spec("ray")
    assert ray
    assert ray.origin
    schema = json.loads(Path(ray.origin).with_name("autoscaler").joinpath("ray-schema.json").read_text())
    cluster = shown("cluster.yaml")
    importlib.import_module("jsonschema").validate(cluster, schema)
    assert cluster["head_node_type"] in cluster["available_node_types"]
