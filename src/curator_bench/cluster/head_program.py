"""Program of one cluster: a `ray start --head --block` that is quicker and reports when the cluster is ready.

It runs by path, in the interpreter that has Ray, and imports nothing of ours, because that interpreter may not have
curator_bench. It changes three things in Ray: Ray checks only once a second whether its own node is up, starts a server
that has no use without a dashboard, and imports pandas and FastAPI for commands that nobody calls here. Its standard
input is a pipe from the process that started it. When the pipe breaks, the cluster ends.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import shutil
import signal
import stat
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

ALIVE = 0
NOTE = "owner.json"
GUARD_GOES_FIRST_S = 1.0
LOOK_EVERY_S = 0.01
PR_SET_CHILD_SUBREAPER = 36
COMMANDS_OF_NO_USE = ("ray.serve.scripts", "ray.dashboard.modules.job.cli", "ray.util.state.state_cli")
"""Groups of subcommands that `ray` adds if they can be imported: more than half of the time it takes to come up."""
OWN_DIRECTORY = os.path.dirname(os.path.abspath(__file__))


def main() -> None:
    answer_to, arguments = int(sys.argv[1]), sys.argv[2:]
    os.set_inheritable(answer_to, False)
    adopt_orphans()
    sys.path[:] = [path for path in sys.path if path != OWN_DIRECTORY]
    rays_folder = next(argument.partition("=")[2] for argument in arguments if argument.startswith("--temp-dir="))
    temp_dir = os.path.dirname(rays_folder)  # which only its owner may enter
    threading.Thread(target=end_with_the_parent, args=(temp_dir,), daemon=True).start()
    node_module: Any = importlib.import_module("ray._private.node")
    node_module.Node = quick_node(
        node_module.Node,
        with_dashboard="--include-dashboard=true" in arguments,
        tell=lambda facts: os.write(answer_to, json.dumps(facts).encode() + b"\n"),
    )
    modules: dict[str, Any] = sys.modules
    modules.update(dict.fromkeys(COMMANDS_OF_NO_USE))  # with None there, an import fails
    sys.argv = ["ray", "start", *arguments]
    importlib.import_module("ray.scripts.scripts").main()


def adopt_orphans() -> None:
    """Become the parent of processes that leave the tree of a worker, and so end with this process (Linux)."""
    if sys.platform == "linux":
        with contextlib.suppress(ImportError, OSError, AttributeError):
            import ctypes

            ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def quick_node(node_class: Any, with_dashboard: bool, tell: Callable[[dict[str, Any]], Any]) -> Any:
    class QuickNode(node_class):  # type: ignore[misc]  # Ray's class is only known by now
        def start_api_server(self, **options: Any) -> None:
            if with_dashboard:
                super().start_api_server(**options)
            else:
                self._webui_url = ""

        def start_ray_client_server(self) -> None:
            """No-op: it is not needed, and its port would be the same for all clusters of the machine."""

        def start_ray_processes(self) -> None:
            super().start_ray_processes()
            tell(facts_of(self, wait_until_registered(self)))

    return QuickNode


def wait_until_registered(node: Any) -> Any:
    """Wait until the cluster's control store, asked with the cluster's token, lists this node as alive."""
    client = node.get_gcs_client()
    while True:
        for registered in client.get_all_node_info(timeout=30).values():
            if registered.node_id.hex() == node.node_id and registered.state == ALIVE:
                return registered
        dead = [kind for kind, _ in node.dead_processes()]
        if dead:
            raise RuntimeError("ended while the cluster was starting: " + ", ".join(dead))
        time.sleep(LOOK_EVERY_S)


def facts_of(node: Any, registered: Any) -> dict[str, Any]:
    return {
        "address": node.address,
        "node_id": node.node_id,
        "resources": dict(registered.resources_total),
        "session_dir": node.get_session_dir_path(),
        "pids": [info.process.pid for kind in ("gcs_server", "raylet") for info in node.all_processes[kind]],
        "ray_version": importlib.import_module("ray").__version__,
        "dashboard_url": node.webui_url or "",
    }


def end_with_the_parent(temp_dir: str) -> None:
    """End the cluster when the process that started it is gone.

    A guard goes first, if there is one: it ends all processes at once and knows their files in shared memory.
    """
    while os.read(0, 4096):
        pass
    time.sleep(GUARD_GOES_FIRST_S)
    for pid in children():
        os.kill(pid, signal.SIGKILL)
    for _ in range(100):  # workers may still be writing
        if removed(temp_dir):
            break
        time.sleep(0.02)
    os.killpg(0, signal.SIGKILL)


def removed(temp_dir: str) -> bool:
    """Remove the folder; true if it is gone. The owner's note goes last, so that a guard can finish the removal."""
    if not is_own_folder(temp_dir):
        return True
    others = [name for name in os.listdir(temp_dir) if name != NOTE]
    for name in others:
        path = os.path.join(temp_dir, name)
        if os.path.isdir(path) and not os.path.islink(path):
            shutil.rmtree(path, ignore_errors=True)
        else:
            with contextlib.suppress(OSError):
                os.unlink(path)
    if not others:
        shutil.rmtree(temp_dir, ignore_errors=True)
    return not os.path.exists(temp_dir)


def is_own_folder(path: str) -> bool:
    try:
        found = os.lstat(path)
    except OSError:
        return False
    return stat.S_ISDIR(found.st_mode) and found.st_uid == os.geteuid()


def children() -> list[int]:
    import psutil

    return [child.pid for child in psutil.Process().children(recursive=True)]


if __name__ == "__main__":
    main()
