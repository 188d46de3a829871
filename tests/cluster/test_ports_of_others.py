"""A port of this machine that another user took, or a note that leads there, does not get the user's token."""

from __future__ import annotations

import importlib
import json
import os
import socket
from collections.abc import Iterator
from concurrent import futures
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import warm
from other_user import needs_a_second_user, start

from curator_bench.cluster.health import is_alive
from curator_bench.cluster.listeners import other_user_at
from curator_bench.cluster.model import Cluster
from curator_bench.cluster.providers import Clusters
from curator_bench.errors import ClusterError
from curator_bench.values import RaySettings

if TYPE_CHECKING:
    from cluster.conftest import Bench

grpc: Any = importlib.import_module("grpc")
messages: Any = importlib.import_module("ray.core.generated.gcs_service_pb2")
TOKEN = "0123456789abcdef" * 4
# Speaks HTTP/2 as far as is needed to be told what a client has to say.
LISTENS = """
import threading
taken = socket.socket(socket.AF_INET6 if ":" in sys.argv[1] else socket.AF_INET)
taken.bind((sys.argv[1], 0))
taken.listen()
print(taken.getsockname()[1], flush=True)
heard = b""

def hear(peer):
    global heard
    with contextlib.suppress(OSError):
        peer.sendall(b"\\0\\0\\0\\4\\0\\0\\0\\0\\0")
        while piece := peer.recv(65536):
            heard += piece

def take():
    while True:
        threading.Thread(target=hear, args=(taken.accept()[0],), daemon=True).start()

threading.Thread(target=take, daemon=True).start()
sys.stdin.readline()
print(repr(heard), flush=True)
os._exit(0)
"""


class Thief:
    def __init__(self, host: str) -> None:
        self._process = start(LISTENS, host)
        assert self._process.stdout
        self.port = int(self._process.stdout.readline())

    def heard(self) -> str:
        output, _ = self._process.communicate("\n", timeout=60)
        return output


@pytest.fixture(params=["127.0.0.1", "0.0.0.0", "::"])
def thief(request: pytest.FixtureRequest) -> Thief:
    return Thief(request.param)


@needs_a_second_user
def test_the_owner_of_a_port_is_known(thief: Thief, monkeypatch: pytest.MonkeyPatch) -> None:
    address = f"localhost:{thief.port}"
    assert other_user_at(address) == 65534
    assert other_user_at(f"ray://127.0.0.1:{thief.port}") == 65534
    theirs = Cluster(address=address, env={}, resources={}, startup_log=Path(), python="", ray_version="")
    assert not is_alive(theirs)
    monkeypatch.setenv("CURATOR_BENCH_TRUSTED_USERS", "nobody")
    assert other_user_at(address) is None
    assert is_alive(theirs)
    thief.heard()


def test_our_own_ports_and_those_of_other_machines_are_not_refused() -> None:
    with socket.create_server(("127.0.0.1", 0)) as own:
        assert other_user_at(f"127.0.0.1:{own.getsockname()[1]}") is None
    for address in ("192.0.2.200:6379", "nowhere.invalid:6379", "127.0.0.1:1", "auto", "ray://x"):
        assert other_user_at(address) is None


@needs_a_second_user
@pytest.mark.parametrize("thief", ["0.0.0.0"], indirect=True)
@pytest.mark.parametrize("is_named", [True, False], ids=["address", "auto"])
def test_the_token_is_not_sent_to_another_user(bench: Bench, thief: Thief, tmp_path: Path, is_named: bool) -> None:
    """With "auto", Ray reads a note in a folder that it opens to all users."""
    note = tmp_path / "ray" / "ray_current_cluster"
    note.parent.mkdir()
    note.write_text(f"127.0.0.1:{thief.port}")
    own = {**bench.env, "RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": TOKEN, "TMPDIR": str(tmp_path)}
    settings = RaySettings(address=f"127.0.0.1:{thief.port}" if is_named else "auto")
    with (
        pytest.raises(ClusterError, match=r"another user \(uid 65534\) listens there"),
        Clusters("marker", tmp_path).cluster(type(bench)(bench.folder, own).request(settings)),
    ):
        pass
    assert TOKEN not in thief.heard()


class ControlStore(grpc.GenericRpcHandler):  # type: ignore[misc]  # known only now
    """As much of Ray's as the bench asks before a run; it keeps the tokens that it is told."""

    def __init__(self) -> None:
        self.tokens: set[str] = set()

    def service(self, call: Any) -> Any:
        self.tokens |= {str(one.value) for one in call.invocation_metadata if one.key == "authorization"}
        reply: Any = messages.GetAllNodeInfoReply()
        if call.method.endswith("GetClusterId"):
            reply = messages.GetClusterIdReply(cluster_id=b"0" * 28)
        return grpc.unary_unary_rpc_method_handler(lambda request, context: reply.SerializeToString())


@pytest.fixture
def control_store() -> Iterator[tuple[ControlStore, str]]:
    handler = ControlStore()
    server = grpc.server(futures.ThreadPoolExecutor(4), handlers=[handler])
    address = f"127.0.0.1:{server.add_insecure_port('0.0.0.0:0')}"
    server.start()
    yield handler, address
    server.stop(None)


def test_an_entry_with_an_address_uses_the_token_of_the_environment(
    tmp_path: Path, control_store: tuple[ControlStore, str]
) -> None:
    handler, address = control_store
    script = "import pathlib, sys\nfor name in ('metrics', 'params'):\n"
    script += "    pathlib.Path(sys.argv[-1], name + '.json').write_text('{}')\n"
    (tmp_path / "script.py").write_text(script)
    matrix = {"entries": [{"name": "one", "script": "script.py", "ray": {"address": address}}]}
    (tmp_path / "matrix.json").write_text(json.dumps(matrix))
    env = {**os.environ, "RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": TOKEN}
    done = warm.run("pytest", "matrix.json", "--bench-session", "s", cwd=tmp_path, env=env, stderr_apart=False)
    assert done.returncode == 0, done.stdout
    assert handler.tokens == {f"Bearer {TOKEN}"}
