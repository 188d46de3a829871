"""The files that docs/fleet.md shows for other programs are such as those programs take."""

from __future__ import annotations

import importlib
import importlib.metadata
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


# Of KubeRay's API, raycluster_types.go: what a spec must have, and what else the page uses of it.
SPEC = {"headGroupSpec"}, {"rayVersion", "authOptions", "enableInTreeAutoscaling", "workerGroupSpecs"}
GROUP = {"rayStartParams", "template"}, set[str]()
WORKERS = {*GROUP[0], "groupName", "minReplicas", "maxReplicas"}, {"replicas"}


def test_kuberay_takes_the_cluster_file() -> None:
    cluster = shown("raycluster.yaml")
    assert (cluster["apiVersion"], cluster["kind"]) == ("ray.io/v1", "RayCluster")
    head, workers = cluster["spec"]["headGroupSpec"], cluster["spec"]["workerGroupSpecs"]
    for part, (needed, known) in ((cluster["spec"], SPEC), (head, GROUP), *((group, WORKERS) for group in workers)):
        assert needed <= set(part) <= needed | known
    assert all(type(value) is str for group in (head, *workers) for value in group["rayStartParams"].values())
    ray = importlib.metadata.version("ray")
    images = [pod["image"] for group in (head, *workers) for pod in group["template"]["spec"]["containers"]]
    assert cluster["spec"]["rayVersion"] == ray
    assert all(image.startswith(f"rayproject/ray:{ray}-") for image in images)


def test_ray_up_takes_the_cluster_file() -> None:
    ray = importlib.util.find_spec("ray")
    assert ray
    assert ray.origin
    schema = json.loads(Path(ray.origin).with_name("autoscaler").joinpath("ray-schema.json").read_text())
    cluster = shown("cluster.yaml")
    importlib.import_module("jsonschema").validate(cluster, schema)
    assert cluster["head_node_type"] in cluster["available_node_types"]
