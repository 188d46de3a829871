"""The machine's GPUs and their health, checked once before anything runs."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from curator_bench.measure.nvml import Device, Driver, GpuLost, ask_driver

# NVML's own numbers. Older versions of its Python module have no names for them.
_COMPUTE_MODES = {0: "default", 1: "exclusive_thread", 2: "prohibited", 3: "exclusive_process"}
_RECOVERY_ACTION_FIELD = 230
_RECOVERY_ACTIONS = {
    0: "none",
    1: "reset the GPU",
    2: "reboot the node",
    3: "drain peer-to-peer traffic",
    4: "drain and reset the GPU",
    5: "recover the IMEX domain",
    6: "reset the bus",
    7: "reboot the system",
}
_UNCORRECTED, _SINCE_DRIVER_LOAD = 1, 0
_KERNEL_LIST = Path("/proc/driver/nvidia")
_MODEL = re.compile(r"^Model:\s+(.+?)\s*$", re.MULTILINE)
_KERNEL_MODULE = re.compile(r"Kernel Module\b.*?\s(\d+\.[\d.]+)")


@dataclass(frozen=True, slots=True)
class GpuInventory:
    """The driver and all GPUs of the machine, regardless of CUDA_VISIBLE_DEVICES."""

    driver: str | None = None
    models: tuple[str, ...] = ()
    cuda: str | None = None
    """The newest version of CUDA that the driver supports."""


@dataclass(frozen=True, slots=True)
class GpuHealth:
    """State of one GPU by its driver; None where unknown. The driver does not report past faults (Xid)."""

    index: int
    uuid: str
    name: str
    compute_mode: str | None = None
    memory_total_bytes: int | None = None
    uncorrected_ecc_errors: int | None = None
    """Since the driver was loaded."""
    retired_pages_pending: bool | None = None
    row_remap_pending: bool | None = None
    row_remap_failed: bool | None = None
    recovery_action: str | None = None
    """Recovery the driver asks for after a fault; "none" if no recovery is needed."""
    problems: tuple[str, ...] = ()


def gpu_inventory() -> GpuInventory:
    """List the machine's GPUs from the driver's library, or from the kernel without one."""
    return ask_driver(_inventory, None) or kernel_inventory(_KERNEL_LIST)


def _inventory(driver: Driver) -> GpuInventory | None:
    models = tuple(device.name or "unknown" for device in driver.devices())
    return GpuInventory(driver.version(), models, driver.cuda_version())


def kernel_inventory(directory: Path) -> GpuInventory:
    version = _KERNEL_MODULE.search(_text(directory / "version"))
    models = [_MODEL.search(_text(file)) for file in sorted(directory.glob("gpus/*/information"))]
    return GpuInventory(version and version[1], tuple(model[1] for model in models if model))


def gpu_health(environ: Mapping[str, str] | None = None) -> list[GpuHealth]:
    """Check the visible GPUs, including those that cannot be opened; empty without a driver.

    `environ` is the script's, for its CUDA_VISIBLE_DEVICES; ours by default.
    """
    visible_to = os.environ if environ is None else environ
    return ask_driver(lambda driver: [_health(driver, device) for device in driver.visible_devices(visible_to)], [])


def _health(driver: Driver, device: Device) -> GpuHealth:
    try:
        health = _ask(driver, device)
    except GpuLost as loss:
        return GpuHealth(device.index, device.uuid, device.name, problems=(f"cannot be used: {loss}",))
    return replace(health, problems=tuple(_problems(health)))


def _ask(driver: Driver, device: Device) -> GpuHealth:
    memory = driver.memory(device)
    _corrected, _uncorrected, remap_pending, remap_failed = (
        driver.ask(device, "nvmlDeviceGetRemappedRows") or [None] * 4
    )
    return GpuHealth(
        index=device.index,
        uuid=device.uuid,
        name=device.name,
        compute_mode=_named(_COMPUTE_MODES, driver.ask(device, "nvmlDeviceGetComputeMode")),
        memory_total_bytes=memory and memory[1],
        uncorrected_ecc_errors=uncorrected_errors(driver, device),
        retired_pages_pending=_truth(driver.ask(device, "nvmlDeviceGetRetiredPagesPendingStatus")),
        row_remap_pending=_truth(remap_pending),
        row_remap_failed=_truth(remap_failed),
        recovery_action=_named(_RECOVERY_ACTIONS, driver.field(device, _RECOVERY_ACTION_FIELD)),
    )


def uncorrected_errors(driver: Driver, device: Device) -> int | None:
    """Count the uncorrected errors of its memory since the driver was loaded; None if it has no ECC."""
    counted = driver.ask(device, "nvmlDeviceGetTotalEccErrors", _UNCORRECTED, _SINCE_DRIVER_LOAD)
    return None if counted is None else int(counted)


def _problems(health: GpuHealth) -> Iterator[str]:
    if health.compute_mode == "prohibited":
        yield "compute mode is prohibited: no program can use it (nvidia-smi -c 0 allows it)"
    if health.uncorrected_ecc_errors:
        yield f"{health.uncorrected_ecc_errors} uncorrected memory errors (ECC) since the driver was loaded"
    if health.row_remap_failed:
        yield "a defective row of its memory could not be replaced: replace the GPU"
    if health.row_remap_pending or health.retired_pages_pending:
        yield "defective memory is replaced at the next reset of the GPU"
    if health.recovery_action not in (None, "none"):
        yield f"the driver asks for a recovery after a fault: {health.recovery_action}"


def _named(names: Mapping[int, str], value: int | None) -> str | None:
    return None if value is None else names.get(int(value), f"unknown ({value})")


def _truth(value: int | None) -> bool | None:
    return None if value is None else bool(value)


def _text(file: Path) -> str:
    try:
        return file.read_text(errors="replace")
    except OSError:
        return ""
