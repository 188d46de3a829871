"""The program that asks the user's own cluster what it has; that answers only when it lives and lets us in.

It is run by path, in the script's interpreter, and stands alone. The address and what opens it stand in its
environment, as they will for the script.
"""

from __future__ import annotations

import collections
import importlib
import json
import os
import sys
from typing import Any

ALIVE = 0
ANSWERS_WITHIN_S = 10
OWN_DIRECTORY = os.path.dirname(os.path.abspath(__file__))


def main() -> None:
    sys.path[:] = [path for path in sys.path if path != OWN_DIRECTORY]
    try:
        answer = look(os.environ["RAY_ADDRESS"])
    except Exception as error:  # whatever Ray raises is the answer
        answer = {"refused": f"{type(error).__name__}: {error}"}
    os.write(int(sys.argv[1]), json.dumps(answer).encode() + b"\n")


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


if __name__ == "__main__":
    main()
