"""Samples what the GPUs did during a run: clocks, slowdowns, power limit, other processes, errors of their memory."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from time import monotonic
from typing import TypeVar

from curator_bench.measure.gpu_health import uncorrected_errors
from curator_bench.measure.nvml import STREAMING_CLOCK, Device, Driver, GpuLost, NoDriver, open_driver
from curator_bench.measure.samples import TimeAverage
from curator_bench.measure.schedule import Job, Schedule
from curator_bench.values import MACHINE

T = TypeVar("T")
_SHARE_OF_A_CORE = 0.002
_EVERY_S = 2.0
_NOTHING_TO_DO_S = 3600.0


class GpuWitness:
    """Sampler of `machine.gpu_…`, over all visible GPUs together. Without a driver it measures nothing."""

    def __init__(
        self,
        own_pids: Callable[[], Collection[int]] = tuple,
        *,
        environ: Mapping[str, str] | None = None,
        schedule: Schedule | None = None,
    ) -> None:
        """Set up the sampler. `environ` is the script's, for its CUDA_VISIBLE_DEVICES; ours by default."""
        self._own_pids, self._environ = own_pids, os.environ if environ is None else environ
        self._schedule = schedule or Schedule()
        self._driver: Driver | None = None
        self._devices: Sequence[Device] = ()
        self._was_opened = False
        self._clock = TimeAverage()
        self._slow = TimeAverage()
        self._reasons: dict[str, None] = {}
        self._limit_w: float | None = None
        self._others: int | None = None
        self._errors: tuple[int, int] | None = None
        self._job = Job("watching GPUs", self._sample, self._seconds_to_next_sample, _SHARE_OF_A_CORE, self._close)

    def start(self) -> None:
        """Start sampling. A driver that is slow to answer is reported by the sampler of gpustats.csv."""
        self._schedule.add(self._job)

    def stop(self) -> None:
        self._schedule.remove(self._job)

    def metrics(self) -> dict[str, float | int | str]:
        named: dict[str, float | int | str | None] = {
            "gpu_clock_mhz": self._clock.average and round(self._clock.average, 1),
            "gpu_slowed_share": None if self._slow.average is None else round(self._slow.average, 4),
            "gpu_slowed_by": ", ".join(self._reasons) or None,
            "gpu_power_limit_w": self._limit_w,
            "gpu_other_processes": self._others,
            "gpu_ecc_errors": None if self._errors is None else max(0, self._errors[1] - self._errors[0]),
        }
        return {f"{MACHINE}{name}": value for name, value in named.items() if value is not None}

    def warnings(self) -> tuple[str, ...]:
        return self._job.warnings()

    def _sample(self) -> None:
        if not self._was_opened:
            self._was_opened = True
            self._open()
        driver = self._driver
        if driver is None:
            return
        self._note(driver, [device for device in self._devices if self._answers(driver, device)])

    def _open(self) -> None:
        try:
            self._driver = open_driver()
        except NoDriver:  # the sampler of gpustats.csv says so
            return
        self._devices = self._driver.visible_devices(self._environ)

    def _answers(self, driver: Driver, device: Device) -> bool:
        try:
            driver.temperature(device)
        except GpuLost:
            return False
        return True

    def _note(self, driver: Driver, devices: Sequence[Device]) -> None:
        now = monotonic()
        clocks = _known(driver.ask(device, "nvmlDeviceGetClockInfo", STREAMING_CLOCK) for device in devices)
        if clocks:
            self._clock.add(now, sum(clocks) / len(clocks))
        slowed = _known(driver.slowdowns(device) for device in devices)
        if slowed:
            self._slow.add(now, sum(map(bool, slowed)) / len(slowed))
            self._reasons.update(dict.fromkeys(reason for reasons in slowed for reason in reasons))
        limits = _known(driver.ask(device, "nvmlDeviceGetPowerManagementLimit") for device in devices)
        if limits:
            self._limit_w = sum(limits) / 1000
        errors = _known(uncorrected_errors(driver, device) for device in devices)
        if errors:
            first = self._errors[0] if self._errors else sum(errors)
            self._errors = first, sum(errors)
        if self._others is None:  # later, the run's own processes are among them
            self._others = _others(driver, devices, self._own_pids())

    def _seconds_to_next_sample(self, _elapsed_s: float) -> float:
        return _EVERY_S if self._driver is not None else _NOTHING_TO_DO_S

    def _close(self) -> None:
        if self._driver is not None:
            self._driver.close()
            self._driver = None


def _known(answers: Iterable[T | None]) -> list[T]:
    return [answer for answer in answers if answer is not None]


def _others(driver: Driver, devices: Sequence[Device], own: Collection[int]) -> int | None:
    listed = [pids for device in devices if (pids := driver.processes(device)) is not None]
    return len({pid for pids in listed for pid in pids} - set(own)) if listed else None
