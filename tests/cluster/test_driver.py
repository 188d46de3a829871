"""What `Cluster.driver` promises: a driver in this process, of one cluster after the other, and nothing of it after."""

from __future__ import annotations

import importlib
import os
import signal
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest

from curator_bench.cluster.local import LocalCluster
from curator_bench.cluster.model import Cluster
from curator_bench.errors import ClusterError

if TYPE_CHECKING:
    from cluster.conftest import Bench

READS_ITS_TOKEN_AGAIN = """
import os
from curator_bench.cluster.ray_token import read_token_again
from ray._raylet import AuthenticationMode, AuthenticationTokenLoader, get_authentication_mode
token = AuthenticationTokenLoader.instance().get_raw_token
print(token())
os.environ["RAY_AUTH_TOKEN"] = "second"
print(token())
read_token_again()
print(token())
os.environ["RAY_AUTH_MODE"] = "disabled"
read_token_again()
print(get_authentication_mode() == AuthenticationMode.DISABLED)
"""


@pytest.fixture(autouse=True)
def users_own_settings(monkeypatch: pytest.MonkeyPatch, bench: Bench) -> Iterator[dict[str, str]]:
    monkeypatch.setenv("RAY_AUTH_TOKEN", bench.stale_token)
    monkeypatch.setenv("RAY_ADDRESS", "203.0.113.7:6379")
    monkeypatch.delenv("RAY_AUTH_MODE", raising=False)
    before = dict(os.environ)
    yield before
    assert dict(os.environ) == {**before, "PYTEST_CURRENT_TEST": os.environ.get("PYTEST_CURRENT_TEST", "")}


def tokens(cluster: Cluster) -> tuple[str, str]:
    """What a worker of the cluster and this process hold for its token."""
    with cluster.driver(log_to_driver=False) as ray:
        raylet: Any = importlib.import_module("ray._raylet")
        seen = ray.get(ray.remote(lambda: os.environ["RAY_AUTH_TOKEN"]).remote())
        return seen, raylet.AuthenticationTokenLoader.instance().get_raw_token()


@pytest.mark.slow
def test_one_process_may_drive_one_cluster_after_the_other(
    standing: Cluster, local: LocalCluster, bench: Bench
) -> None:
    other = local.start(bench.request(bench.small()))
    assert standing.token != other.token
    for cluster in (standing, other, standing):
        assert tokens(cluster) == (cluster.token, cluster.token)


def test_the_environment_and_the_signal_handler_are_put_back(
    standing: Cluster, users_own_settings: dict[str, str]
) -> None:
    handler = signal.getsignal(signal.SIGTERM)
    with standing.driver() as ray:
        assert ray.is_initialized()
        assert os.environ["RAY_AUTH_TOKEN"] == standing.token
    assert not ray.is_initialized()
    assert not importlib.import_module("ray._raylet").get_authentication_mode()  # as in the user's environment
    assert signal.getsignal(signal.SIGTERM) == handler
    assert {name: value for name, value in os.environ.items() if name.startswith("RAY_")} == {
        name: value for name, value in users_own_settings.items() if name.startswith("RAY_")
    }


def test_all_is_put_back_after_an_error_too(standing: Cluster) -> None:
    with pytest.raises(ZeroDivisionError), standing.driver() as ray:
        _ = 1 / 0
    assert not ray.is_initialized()
    with pytest.raises(RuntimeError), standing.driver(no_such_option=1):
        pass
    assert tokens(standing) == (standing.token, standing.token)


def test_a_driver_in_a_driver_is_refused(standing: Cluster) -> None:
    with standing.driver() as ray:
        with pytest.raises(ClusterError, match="already is a driver"), standing.driver():
            pass
        assert ray.get(ray.put(1)) == 1


def test_the_traceback_of_a_refusal_shows_no_token(standing: Cluster) -> None:
    with standing.driver(), pytest.raises(ClusterError) as refusal, standing.driver():
        pass
    assert "already is a driver" in str(refusal.getrepr())
    assert standing.token not in str(refusal.getrepr(showlocals=True, funcargs=True))


def test_a_driver_beside_the_users_own_is_refused(standing: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    import ray

    monkeypatch.setattr(ray, "is_initialized", lambda: True)
    with pytest.raises(ClusterError, match=r"ray\.init\(\) itself"), standing.driver():
        pass


def test_ray_reads_its_token_again(bench: Bench) -> None:
    path = os.pathsep.join(sys.path)
    outcome = bench.run_python(READS_ITS_TOKEN_AGAIN, PYTHONPATH=path, RAY_AUTH_MODE="token", RAY_AUTH_TOKEN="first")
    assert outcome.stdout.split() == ["first", "first", "second", "True"], outcome.stderr
