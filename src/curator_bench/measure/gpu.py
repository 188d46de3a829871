"""Sampling of GPUs during a run (gpustats.csv and its metrics), and detection of GPUs already in use."""

from __future__ import annotations

import glob
import logging
import os
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import astuple, dataclass, fields
from datetime import UTC, datetime
from pathlib import Path
from statistics import fmean
from time import monotonic
from typing import TypeAlias

from curator_bench.measure.nvml import (
    Device,
    Driver,
    FaultWatch,
    GpuLost,
    NoDriver,
    ask_driver,
    log_absence,
    open_driver,
)
from curator_bench.measure.samples import RowFile, TimeAverage
from curator_bench.measure.schedule import Job, Schedule

logger = logging.getLogger(__name__)

GPU_DEVICES = ("/dev/nvidia*", "/dev/nvhost*", "/dev/dxg", "/dev/kfd", "/dev/accel*", "/dev/dri/render*")
"""Devices of NVIDIA's GPUs (also of Jetson and WSL), of AMD's and Intel's."""

_Merge: TypeAlias = Callable[[list[float]], float]
_SHARE_OF_A_CORE = 0.003
_NOTHING_TO_DO_S = 3600.0
_GIB = 1 << 30


@dataclass(frozen=True, slots=True)
class GpuReading:
    """One row of gpustats.csv; a cell is empty where the GPU has no such reading."""

    time: str
    """UTC, ISO 8601."""
    gpu: int
    uuid: str
    utilization_percent: int | None
    memory_used_bytes: int | None
    memory_total_bytes: int | None
    temperature_c: int | None
    power_w: float | None
    processes: int | None


@dataclass(frozen=True, slots=True)
class GpuInUse:
    """A GPU whose memory is in use."""

    index: int
    uuid: str
    name: str
    used_bytes: int
    total_bytes: int
    pids: tuple[int, ...]
    """Empty if the driver does not list processes, as in most containers."""

    def __str__(self) -> str:
        share = 100 * self.used_bytes / self.total_bytes
        users = f", by the processes {', '.join(map(str, self.pids))}" if self.pids else ""
        amount = f"{self.used_bytes / _GIB:.1f} of {self.total_bytes / _GIB:.1f} GiB ({share:.0f} %)"
        return f"GPU {self.index} ({self.name}, {self.uuid}): {amount} in use{users}"


def machine_may_have_gpus(environ: Mapping[str, str]) -> bool:
    """False only where no GPU of any vendor can be: a Linux without their devices, and nobody chose one."""
    if sys.platform != "linux" or environ.get("CUDA_VISIBLE_DEVICES"):
        return True
    return any(glob.glob(pattern) for pattern in GPU_DEVICES)


def busy_gpus(threshold: float, environ: Mapping[str, str] | None = None) -> list[GpuInUse]:
    """List the visible GPUs whose used memory exceeds this fraction; empty if there is no driver.

    `environ` is the script's, for its CUDA_VISIBLE_DEVICES; ours by default.
    """
    visible_to = os.environ if environ is None else environ

    def in_use(driver: Driver) -> list[GpuInUse]:
        gpus = [_in_use(driver, device) for device in driver.visible_devices(visible_to)]
        return [gpu for gpu in gpus if gpu is not None and gpu.used_bytes > threshold * gpu.total_bytes]

    return ask_driver(in_use, [])


def _in_use(driver: Driver, device: Device) -> GpuInUse | None:
    try:
        memory = driver.memory(device)
        pids = driver.processes(device)
    except GpuLost:  # the health check and the run report it
        return None
    return None if memory is None else GpuInUse(device.index, device.uuid, device.name, *memory, pids or ())


class GpuSampler:
    """Writer of gpustats.csv. Its metrics cover all visible GPUs together."""

    def __init__(
        self,
        csv_path: Path,
        *,
        below: Path | None = None,
        interval_s: float = 1.0,
        always: bool = False,
        environ: Mapping[str, str] | None = None,
        schedule: Schedule | None = None,
    ) -> None:
        """Set up the sampler. `environ` is the script's, for its CUDA_VISIBLE_DEVICES; ours by default.

        Without GPUs there is no file; with `always`, one that has only its header.

        No link is followed to the file from the folder `below` on.
        """
        self._rows = RowFile(csv_path, [field.name for field in fields(GpuReading)], below)
        self._interval_s, self._always = interval_s, always
        self._environ = os.environ if environ is None else environ
        self._schedule = schedule or Schedule()
        self._opened = False
        self._watch: _Watch | None = None
        self._figures = _Figures()
        self._warnings: dict[str, None] = {}
        share = _SHARE_OF_A_CORE * max(1.0, 1.0 / interval_s)  # a shorter interval may cost more
        self._job = Job("sampling GPUs", self._sample, self._seconds_to_next_sample, share, self._close)

    def start(self) -> None:
        """Start sampling. A sampler can be started once."""
        if not self._schedule.add(self._job):
            self._warn("the GPU driver is slow to answer: gpustats.csv begins later than the run")

    def stop(self) -> None:
        if not self._schedule.remove(self._job):
            self._warn("the GPU driver does not answer any more: gpustats.csv ends earlier than the run")

    def metrics(self) -> dict[str, float | int]:
        return self._figures.metrics()

    def warnings(self) -> tuple[str, ...]:
        return (*self._warnings, *self._job.warnings())

    def _sample(self) -> None:
        if not self._opened:
            self._opened = True
            if self._always:
                self._rows.add(())
            self._watch = self._open()
        if self._watch is not None:
            self._take_sample(self._watch)

    def _open(self) -> _Watch | None:
        try:
            driver = open_driver()
        except NoDriver as absence:
            log_absence(absence)
            if absence.broken:
                self._warn(f"GPUs are not measured: {absence}")
            return None
        devices = driver.visible_devices(self._environ)
        return _Watch(driver, devices, driver.watch_faults(devices))

    def _take_sample(self, watch: _Watch) -> None:
        moment, stamp = monotonic(), datetime.now(UTC).isoformat(timespec="milliseconds")
        readings = [reading for device in watch.devices if (reading := self._read(watch.driver, device, stamp))]
        self._figures.add(moment, readings)
        for uuid, fault in watch.faults.news() if watch.faults else ():
            self._warn(f"GPU {uuid}: the driver reported a fault (Xid {fault}) during the run")
        if readings:
            self._rows.add(astuple(reading) for reading in readings)

    def _read(self, driver: Driver, device: Device, stamp: str) -> GpuReading | None:
        try:
            return _reading(driver, device, stamp)
        except GpuLost as loss:
            self._warn(f"{device}: {loss}; gpustats.csv lacks its rows from then on")
            return None

    def _seconds_to_next_sample(self, _elapsed_s: float) -> float:
        return self._interval_s if self._watch is not None else _NOTHING_TO_DO_S

    def _close(self) -> None:
        if self._watch is not None:
            self._watch.close()
            self._watch = None
        self._rows.close()

    def _warn(self, text: str) -> None:
        if text not in self._warnings:
            self._warnings[text] = None
            logger.warning("%s", text)


@dataclass(frozen=True, slots=True)
class _Watch:
    driver: Driver
    devices: Sequence[Device]
    faults: FaultWatch | None

    def close(self) -> None:
        if self.faults is not None:
            self.faults.close()
        self.driver.close()


def _reading(driver: Driver, device: Device, stamp: str) -> GpuReading:
    utilization = driver.ask(device, "nvmlDeviceGetUtilizationRates")
    used, total = driver.memory(device) or (None, None)
    milliwatts = driver.ask(device, "nvmlDeviceGetPowerUsage")
    processes = driver.processes(device)
    return GpuReading(
        time=stamp,
        gpu=device.index,
        uuid=device.uuid,
        utilization_percent=None if utilization is None else int(utilization.gpu),
        memory_used_bytes=used,
        memory_total_bytes=total,
        temperature_c=driver.temperature(device),
        power_w=None if milliwatts is None else milliwatts / 1000,
        processes=None if processes is None else len(processes),
    )


class _Figures:
    """Peaks and averages.

    Memory and power are summed over the GPUs, utilization is averaged, temperature is the hottest GPU's.
    """

    def __init__(self) -> None:
        self._of = {name: TimeAverage() for name in ("memory", "utilization", "temperature", "power")}

    def add(self, moment: float, readings: Sequence[GpuReading]) -> None:
        self._add("memory", moment, sum, [reading.memory_used_bytes for reading in readings])
        self._add("utilization", moment, fmean, [reading.utilization_percent for reading in readings])
        self._add("temperature", moment, max, [reading.temperature_c for reading in readings])
        self._add("power", moment, sum, [reading.power_w for reading in readings])

    def metrics(self) -> dict[str, float | int]:
        memory, utilization, temperature, power = self._of.values()
        named = {
            "peak_gpu_memory_bytes": memory.peak,
            "average_gpu_memory_bytes": memory.average,
            "peak_gpu_utilization": utilization.peak,
            "average_gpu_utilization": utilization.average,
            "peak_gpu_temperature_c": temperature.peak,
            "average_gpu_power_w": power.average,
        }
        return {name: _rounded(name, value) for name, value in named.items() if value is not None}

    def _add(self, name: str, moment: float, merge: _Merge, values: Iterable[float | None]) -> None:
        known = [value for value in values if value is not None]
        if known:
            self._of[name].add(moment, float(merge(known)))


def _rounded(name: str, value: float) -> float | int:
    return int(value) if name.endswith("_bytes") else round(value, 2)
