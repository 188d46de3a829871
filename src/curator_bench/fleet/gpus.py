"""Check the GPUs of a slice before and after a run: present, healthy, in an allowed mode, and empty."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import replace

from curator_bench.errors import GpuError
from curator_bench.measure.gpu import GpuInUse, busy_gpus
from curator_bench.measure.gpu_health import gpu_health
from curator_bench.values import RunResult

_IN_USE = 0.01
_FREED_WITHIN_S = 5.0
_LOOK_EVERY_S = 0.25
_SLACK = 0.01


class GpuWatch:
    """Checks by the NVIDIA driver of this machine. Without a driver nothing is wrong, but there is a warning."""

    def __init__(self, environ: Mapping[str, str], is_shared: bool, threshold: float | None) -> None:
        """`environ` names the GPUs in CUDA_VISIBLE_DEVICES."""
        self._environ, self._is_shared = environ, is_shared
        self._threshold = _IN_USE if threshold is None else threshold
        self._before: dict[str, int] = {}
        self._is_blind = False

    def check(self) -> None:
        """Raise GpuError for the first problem."""
        wanted = [word for word in self._environ.get("CUDA_VISIBLE_DEVICES", "").split(",") if word]
        found = gpu_health(self._environ)
        if not found and not busy_gpus(-1.0, {}):
            self._is_blind = True
            return
        if len(found) < len(wanted):
            raise GpuError(f"GPU {','.join(wanted)}: the driver finds {len(found)} of {len(wanted)}")
        for gpu in found:
            if gpu.problems:
                raise GpuError(f"GPU {gpu.index} ({gpu.name}, {gpu.uuid}): {'; '.join(gpu.problems)}")
        if not self._is_shared and (busy := self._still_busy()):
            raise GpuError(f"in use by other processes: {'; '.join(map(str, busy))}")
        self._before = self._used()

    def _still_busy(self) -> list[GpuInUse]:
        """The GPUs in use by others, after waiting a moment for the memory of the previous run to be freed."""
        deadline = time.monotonic() + _FREED_WITHIN_S
        while (busy := busy_gpus(self._threshold, self._environ)) and time.monotonic() < deadline:
            time.sleep(_LOOK_EVERY_S)
        return busy

    def with_gpus(self, result: RunResult) -> RunResult:
        """Add to a result the GPUs it had, and a warning for memory that was not freed."""
        warnings = [] if self._is_shared else self._not_given_back()
        if self._is_blind:
            visible = self._environ.get("CUDA_VISIBLE_DEVICES", "")
            warnings = [f"no NVIDIA driver answers, so it was not checked whether GPU {visible} is there"]
        gpus = tuple(word for word in self._environ.get("CUDA_VISIBLE_DEVICES", "").split(",") if word)
        return replace(result, gpus=gpus, warnings=tuple(dict.fromkeys([*result.warnings, *warnings])))

    def _not_given_back(self) -> list[str]:
        deadline = time.monotonic() + _FREED_WITHIN_S
        while (grown := self._not_freed()) and time.monotonic() < deadline:
            time.sleep(_LOOK_EVERY_S)
        return [f"after the run, {gpu}, more than before it" for gpu in grown]

    def _not_freed(self) -> list[GpuInUse]:
        now = busy_gpus(-1.0, self._environ) if self._before else []
        return [
            gpu for gpu in now if gpu.used_bytes > self._before.get(gpu.uuid, gpu.used_bytes) + _SLACK * gpu.total_bytes
        ]

    def _used(self) -> dict[str, int]:
        return {gpu.uuid: gpu.used_bytes for gpu in busy_gpus(-1.0, self._environ)}
