"""What `cluster.attached` promises: the user's own cluster, reached with the user's token and never ended."""

from __future__ import annotations

import socket
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from curator_bench.cluster.environment import without_ray
from curator_bench.cluster.health import is_alive
from curator_bench.cluster.model import Cluster
from curator_bench.cluster.providers import Clusters
from curator_bench.errors import ClusterError
from curator_bench.values import RaySettings

if TYPE_CHECKING:
    from cluster.conftest import Bench

CONNECTS = "import ray; ray.init(); print('CPUs', ray.cluster_resources()['CPU'])"


@pytest.fixture
def clusters(tmp_path: Path) -> Clusters:
    return Clusters("nothing of ours stands", tmp_path)


def with_token_file(bench: Bench, token: str) -> Bench:
    file = bench.folder / ".ray" / "auth_token"
    file.parent.mkdir()
    file.write_text(token)
    return type(bench)(bench.folder, {**without_ray(bench.env), "HOME": str(bench.folder)})


def attach_and_run(clusters: Clusters, bench: Bench, address: str) -> str:
    with clusters.cluster(bench.request(RaySettings(address=address))) as cluster:
        assert is_alive(cluster)
        assert cluster.resources["CPU"] == 2
        return bench.connect(cluster, CONNECTS)


def test_the_users_own_token_opens_it(clusters: Clusters, standing: Cluster, bench: Bench) -> None:
    own = type(bench)(
        bench.folder, {**without_ray(bench.env), "RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": standing.token}
    )
    assert attach_and_run(clusters, own, standing.address) == "CPUs 2.0\n"
    clusters.close()
    assert is_alive(standing)


@pytest.mark.parametrize("mode", [{}, {"RAY_AUTH_MODE": "token"}])
def test_the_users_token_file_opens_it(
    clusters: Clusters, standing: Cluster, bench: Bench, mode: dict[str, str]
) -> None:
    own = with_token_file(bench, standing.token)
    own = type(bench)(own.folder, {**own.env, **mode})
    assert attach_and_run(clusters, own, standing.address) == "CPUs 2.0\n"


def test_a_cluster_that_does_not_let_us_in_is_an_error(clusters: Clusters, standing: Cluster, bench: Bench) -> None:
    own = with_token_file(bench, "of another cluster")
    with (
        pytest.raises(ClusterError, match=r"cannot be used: .*token is missing or incorrect"),
        clusters.cluster(own.request(RaySettings(address=standing.address))),
    ):
        pass


def test_an_address_where_nothing_is_is_an_error(clusters: Clusters, bench: Bench) -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{closed.getsockname()[1]}"
        with (
            pytest.raises(ClusterError, match=f"ray: address: {address}: nothing accepts connections"),
            clusters.cluster(bench.request(RaySettings(address=address))),
        ):
            pass
