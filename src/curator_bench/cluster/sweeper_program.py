"""Program that empties a shared cluster between two runs: actors, placement groups, drivers, their objects.

It runs by path, in the cluster's interpreter, and imports nothing of ours. It stays connected, because connecting takes
half a second. For each line that it reads, it sweeps once and answers with a line of JSON. It ends with its input.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import signal
import sys
import time
from typing import Any

OWN_DIRECTORY = os.path.dirname(os.path.abspath(__file__))
NAMESPACE = "curator-bench-sweeper"
LOOK_EVERY_S = 0.005
DRIVERS_END_WITHIN_S = 1.0
ROUNDING = 0.001
LIVING = ("DEPENDENCIES_UNREADY", "PENDING_CREATION", "ALIVE", "RESTARTING")


def main() -> None:
    sys.path[:] = [path for path in sys.path if path != OWN_DIRECTORY]
    os.set_inheritable(int(sys.argv[1]), False)
    with os.fdopen(int(sys.argv[1]), "w", buffering=1) as answers:
        sweeper = Sweeper(patience_s=float(sys.argv[2]))
        answers.write(json.dumps({"connected": True}) + "\n")
        for _ in sys.stdin:
            answers.write(json.dumps({"left": sweeper.sweep()}) + "\n")
    os._exit(0)  # saying good-bye takes long when the cluster has gone first


class Sweeper:
    def __init__(self, patience_s: float) -> None:
        self._ray: Any = importlib.import_module("ray")
        self._state: Any = importlib.import_module("ray._private.state")
        self._groups: Any = importlib.import_module("ray.util.placement_group")
        self._patience_s = patience_s
        self._ray.init(namespace=NAMESPACE, log_to_driver=False, logging_level="ERROR")
        self._own_job = self._ray.get_runtime_context().get_job_id()

    def sweep(self) -> list[str]:
        """Empty the cluster; return the names of everything that could not be removed."""
        began = time.monotonic()
        while True:
            self._kill_named_actors()
            self._remove_placement_groups()
            if time.monotonic() - began > DRIVERS_END_WITHIN_S:
                self._end_drivers()
            left = [*self._actors(), *self._placement_groups(), *self._jobs()] or self._resources()
            if not left or time.monotonic() - began > self._patience_s:
                return left
            time.sleep(LOOK_EVERY_S)

    def _kill_named_actors(self) -> None:
        """Kill named actors. Unnamed ones end with their drivers, or are detached and cannot be reached."""
        for name in self._ray.util.list_named_actors(all_namespaces=True):
            with contextlib.suppress(ValueError):  # gone meanwhile
                self._ray.kill(self._ray.get_actor(name["name"], namespace=name["namespace"]), no_restart=True)

    def _remove_placement_groups(self) -> None:
        for group in self._open_groups():
            identity = self._ray.PlacementGroupID(bytes.fromhex(group["placement_group_id"]))
            self._groups.remove_placement_group(self._groups.PlacementGroup(identity))

    def _end_drivers(self) -> None:
        """End the drivers with this cluster's token. Without that check, a reused pid could be another process."""
        token = f"\0RAY_AUTH_TOKEN={os.environ['RAY_AUTH_TOKEN']}\0".encode()
        for job in self._open_jobs():
            with contextlib.suppress(OSError, KeyError, ValueError):
                pid = int(job["DriverPid"])
                with open(f"/proc/{pid}/environ", "rb") as environ:
                    if token in b"\0" + environ.read():
                        os.kill(pid, signal.SIGKILL)

    def _actors(self) -> list[str]:
        """List actors by state, because a long session has many dead ones."""
        living = [actor for state in LIVING for actor in self._state.actors(actor_state_name=state).values()]
        return [f"actor {actor['ActorClassName']} {actor['Name']}".rstrip() for actor in living]

    def _placement_groups(self) -> list[str]:
        return [f"placement group {group['name'] or group['placement_group_id']}" for group in self._open_groups()]

    def _jobs(self) -> list[str]:
        return [f"driver {job['DriverPid']} of job {job['JobID']}" for job in self._open_jobs()]

    def _resources(self) -> list[str]:
        """List resources that objects or tasks still use."""
        there, free = self._ray.cluster_resources(), self._ray.available_resources()
        used = {name: amount - free.get(name, 0.0) for name, amount in there.items()}
        return [f"{amount:g} of {name}" for name, amount in used.items() if amount > ROUNDING]

    def _open_groups(self) -> list[dict[str, Any]]:
        return [group for group in self._groups.placement_group_table().values() if group["state"] != "REMOVED"]

    def _open_jobs(self) -> list[dict[str, Any]]:
        return [job for job in self._state.jobs() if not job["IsDead"] and job["JobID"] != self._own_job]


if __name__ == "__main__":
    main()
