"""A cluster that Ray's autoscaler makes larger, as `ray up` and KubeRay do: with --bench-fleet-wait a fleet grows."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from end_to_end.ray_nodes import HeadByHand, HeldPorts
from proof.killing import FULL

from curator_bench.measure.processes import find_processes

if TYPE_CHECKING:
    from end_to_end.conftest import Project

HEAD = "fffffffffffffffffffffffffffffffffffffffffffffffffff00000"
SCALES = {"RAY_FAKE_CLUSTER": "1", "AUTOSCALER_UPDATE_INTERVAL_S": "1"}
SECOND = {"RAY_enable_autoscaler_v2": "1", "RAY_CLOUD_INSTANCE_ID": HEAD, "RAY_OVERRIDE_NODE_ID_FOR_TESTING": HEAD}
"""Of the autoscaler that Ray is changing over to."""


@pytest.mark.skipif(not FULL, reason="long; `make proof` runs it")
@pytest.mark.parametrize("variables", [{}, SECOND], ids=["v1", "v2"])
def test_a_cluster_that_scales_itself_brings_the_node_an_entry_waits_for(
    project: Project, request: pytest.FixtureRequest, variables: dict[str, str]
) -> None:
    """Ray's own autoscaler, whose nodes are on this machine; its AutoscalingCluster would `ray stop` all there are."""
    held = HeldPorts(1)
    request.addfinalizer(held.close)
    (port,) = held.numbers
    config = project.write("scaling.json", json.dumps(scaling(port)))
    ray = {"num_cpus": 1, "num_gpus": 0, "object_store_size": 100_000_000, "resources": {"disk": 1}}
    waits = (project.entry(f"waits{number}", "--sleep 1", ray=ray) for number in range(3))
    project.matrix(*waits, project.entry("runs"))
    options = [f"--port={port}", f"--autoscaling-config={config}"]
    with HeadByHand(options=options, **SCALES, **variables) as head:
        outcome = project.run("--bench-fleet", head.address, "--bench-fleet-wait", "90", **head.variables())
    assert outcome.code == 0, outcome.output
    assert outcome.json("summary.json")["counts"] == {"passed": 4}
    assert not find_processes(head.mark)


def scaling(port: int) -> dict[str, Any]:
    """Ray's autoscaler, with its provider that starts nodes on this very machine."""
    small = {"object_store_memory": 100_000_000}
    steps = ("initialization", "setup", "head_setup", "worker_setup", "head_start_ray", "worker_start_ray")
    return {
        **{f"{step}_commands": [] for step in steps},
        **{key: {} for key in ("auth", "file_mounts")},
        **{key: [] for key in ("cluster_synced_files", "rsync_exclude", "rsync_filter")},
        "file_mounts_sync_continuously": False,
        "cluster_name": "scales-itself",
        "max_workers": 2,
        "upscaling_speed": 10,
        "idle_timeout_minutes": 0.05,
        "provider": {
            "type": "external",
            "module": "ray.autoscaler._private.fake_multi_node.node_provider.FakeMultiNodeProvider",
            "gcs_address": f"127.0.0.1:{port}",
            "head_node_id": HEAD,
            "launch_multiple": True,
        },
        "available_node_types": {
            "ray.head.default": {"resources": {"CPU": 1, **small}, "node_config": {}, "max_workers": 0},
            "worker": {"resources": {"CPU": 1, "disk": 1, **small}, "node_config": {}, "max_workers": 2},
        },
        "head_node_type": "ray.head.default",
    }
