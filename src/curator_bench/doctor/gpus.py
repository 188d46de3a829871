"""The NVIDIA GPUs that this process can use: driver, persistence, clocks, power, errors, ECC, other processes."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress

from curator_bench.doctor.conditions import Condition, good, unknown, warning
from curator_bench.measure.gpu_health import gpu_health
from curator_bench.measure.nvml import STREAMING_CLOCK, Device, Driver, GpuLost, ask_driver
from curator_bench.words import how_many


def gpu_conditions() -> list[Condition]:
    """Look at the GPUs. A machine without a driver has one condition, which is good: there is nothing to fix."""
    return ask_driver(lambda driver: [*_conditions(driver)], None) or [good("GPUs", "none")]


def _conditions(driver: Driver) -> Iterator[Condition]:
    devices = driver.visible_devices(os.environ)
    if not devices:
        return
    version, cuda = driver.version() or "unknown", driver.cuda_version() or "unknown"
    yield good("GPUs", f"{', '.join(device.name or 'unknown' for device in devices)}; driver {version}, CUDA {cuda}")
    problems = {health.index: health.problems for health in gpu_health()}
    for device in devices:
        name = f"GPU {device.index}"
        if problems.get(device.index):
            cost = "runs on it fail, or give wrong results"
            yield warning(name, "; ".join(problems[device.index]), cost, f"nvidia-smi --id {device.index} --query")
        with suppress(GpuLost):
            yield from _of_device(driver, device, name)


def _of_device(driver: Driver, device: Device, name: str) -> Iterator[Condition]:
    yield _persistence(driver, device, name)
    yield _clock(driver, device, name)
    yield _power(driver, device, name)
    yield _slowdown(driver, device, name)
    yield _error_correction(driver, device, name)
    yield _others(driver, device, name)


def _persistence(driver: Driver, device: Device, name: str) -> Condition:
    name = f"{name}, persistence"
    mode = driver.ask(device, "nvmlDeviceGetPersistenceMode")
    if mode is None:
        return unknown(name, "the driver does not tell it")
    if mode:
        return good(name, "on")
    cost = "the driver is loaded anew for each run, which takes seconds and forgets clocks that were set"
    return warning(name, "off", cost, f"sudo nvidia-smi --id {device.index} --persistence-mode 1")


def _clock(driver: Driver, device: Device, name: str) -> Condition:
    name = f"{name}, clock"
    highest = driver.ask(device, "nvmlDeviceGetMaxClockInfo", STREAMING_CLOCK)
    chosen = driver.ask(device, "nvmlDeviceGetApplicationsClock", STREAMING_CLOCK)
    if not highest or not chosen:
        return unknown(name, "the driver does not tell it")
    if chosen >= highest:
        return good(name, f"up to {chosen} MHz")
    cost = "runs are slower than the GPU can be, and not comparable with those at its full clock"
    found = f"limited to {chosen} of {highest} MHz"
    return warning(name, found, cost, f"sudo nvidia-smi --id {device.index} --reset-applications-clocks")


def _power(driver: Driver, device: Device, name: str) -> Condition:
    name = f"{name}, power"
    limit = driver.ask(device, "nvmlDeviceGetPowerManagementLimit")
    usual = driver.ask(device, "nvmlDeviceGetPowerManagementDefaultLimit")
    if not limit or not usual:
        return unknown(name, "the driver does not tell it")
    if limit >= usual:
        return good(name, f"up to {limit / 1000:g} W")
    cost = "the clock falls when the limit is reached"
    remedy = f"sudo nvidia-smi --id {device.index} --power-limit {usual // 1000}"
    return warning(name, f"limited to {limit / 1000:g} of {usual / 1000:g} W", cost, remedy)


def _slowdown(driver: Driver, device: Device, name: str) -> Condition:
    name = f"{name}, slowed down"
    by = driver.slowdowns(device)
    if by is None:
        return unknown(name, "the driver does not tell it")
    if not by:
        return good(name, "no")
    cost = "its clock is lower than asked for right now"
    remedy = f"nvidia-smi --id {device.index} --query --display PERFORMANCE,TEMPERATURE,POWER"
    return warning(name, f"by {', '.join(by)}", cost, remedy)


def _error_correction(driver: Driver, device: Device, name: str) -> Condition:
    name = f"{name}, ECC"
    modes = driver.ask(device, "nvmlDeviceGetEccMode")
    if modes is None:
        return unknown(name, "it has none, or the driver does not tell it")
    now, after_reset = ("on" if mode else "off" for mode in modes)
    if now == after_reset:
        return good(name, now)
    cost = "its memory has another speed and size then, so runs before and after are not comparable"
    remedy = f"sudo nvidia-smi --id {device.index} --gpu-reset, or keep it {now}: sudo nvidia-smi --id {device.index}"
    return warning(
        name, f"{now}, and {after_reset} after the next reset", cost, f"{remedy} --ecc-config {int(modes[0])}"
    )


def _others(driver: Driver, device: Device, name: str) -> Condition:
    name = f"{name}, other processes"
    pids = driver.processes(device)
    if pids is None:
        return unknown(name, "the driver does not tell them")
    if not pids:
        return good(name, "none")
    cost = "they take memory and time of the GPU from runs"
    found = f"{how_many(len(pids), 'process', 'processes')}: pid {', '.join(map(str, pids))}"
    return warning(name, found, cost, f"nvidia-smi --id {device.index}; end them, or wait")
