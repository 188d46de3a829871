"""Program that asks the user's own cluster for its resources, to check that it lives and accepts the token.

It runs by path, in the script's interpreter, and imports nothing of ours. Address and token are in its environment, as
they will be in the script's. With the argument `find` it only says which cluster Ray would use.
"""

from __future__ import annotations

import collections
import importlib
import json
import os
import sys
from typing import Any

RAY_CLIENT = "ray://"
FIND = "find"
ALIVE = 0
ANSWERS_WITHIN_S = 10
OWN_DIRECTORY = os.path.dirname(os.path.abspath(__file__))


def main() -> None:
    sys.path[:] = [path for path in sys.path if path != OWN_DIRECTORY]
    try:
        address = os.environ["RAY_ADDRESS"]
        if sys.argv[2:] == [FIND]:
            answer = find(address)
        else:
            answer = knock(address) if address.startswith(RAY_CLIENT) else look(address)
    except Exception as error:  # whatever Ray raises is the answer
        answer = {"refused": f"{type(error).__name__}: {error}"}
    os.write(int(sys.argv[1]), json.dumps(answer).encode() + b"\n")


def find(address: str) -> dict[str, Any]:
    """Find the cluster that Ray means by "auto", without connecting to it."""
    services: Any = importlib.import_module("ray._private.services")
    return {"address": services.canonicalize_bootstrap_address_or_die(address)}


def look(address: str) -> dict[str, Any]:
    ray: Any = importlib.import_module("ray")
    services: Any = importlib.import_module("ray._private.services")
    raylet: Any = importlib.import_module("ray._raylet")
    found = services.canonicalize_bootstrap_address_or_die(address)
    nodes = raylet.GcsClient(address=found).get_all_node_info(timeout=ANSWERS_WITHIN_S).values()
    resources: collections.Counter[str] = collections.Counter()
    for node in nodes:
        if node.state == ALIVE:
            resources.update(dict(node.resources_total))
    return {"address": found, "resources": dict(resources), "ray_version": ray.__version__}


def knock(address: str) -> dict[str, Any]:
    """Try to connect to a Ray Client server. Ray's own client would try for half a minute and give no reason."""
    try:
        grpc: Any = importlib.import_module("grpc")
    except ImportError:
        return {"refused": f"{sys.executable} lacks grpcio, which {RAY_CLIENT} needs: pip install 'ray[client]'"}
    channel = importlib.import_module("ray._private.grpc_utils").init_grpc_channel(address[len(RAY_CLIENT) :])
    messages: Any = importlib.import_module("ray.core.generated.ray_client_pb2")
    server: Any = importlib.import_module("ray.core.generated.ray_client_pb2_grpc").RayletDriverStub(channel)
    question = messages.ClusterInfoRequest(type=messages.ClusterInfoType.PING)
    try:
        server.ClusterInfo(question, timeout=ANSWERS_WITHIN_S)
    except grpc.RpcError as error:
        return {"refused": f"{in_words(error.code().name)}: {error.details()}"}
    return {"address": address, "resources": {}, "ray_version": importlib.import_module("ray").__version__}


def in_words(code: str) -> str:
    meanings = {
        "UNAUTHENTICATED": "it has another token, or this process has none",
        "DEADLINE_EXCEEDED": f"no answer within {ANSWERS_WITHIN_S} s",
        "UNIMPLEMENTED": "no Ray Client server (a head listens for clients at port 10001 unless told otherwise)",
        "UNAVAILABLE": "no Ray Client server (a head listens for clients at port 10001 unless told otherwise)",
    }
    return meanings.get(code, code)


if __name__ == "__main__":
    main()
