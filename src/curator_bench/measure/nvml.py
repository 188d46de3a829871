"""The NVIDIA driver's library: the devices, and one reading of each. Linux and Windows."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from itertools import takewhile
from typing import Any, TypeVar

logger = logging.getLogger(__name__)

T = TypeVar("T")
_MOST_FAULTS_AT_ONCE = 100
# NVML's own numbers. Older versions of its Python module have no names for them.
STREAMING_CLOCK = 1
_SLOWDOWNS = {
    0x4: "its power limit",
    0x8: "the hardware (heat or power)",
    0x20: "its heat limit",
    0x40: "the hardware, for heat",
    0x80: "the hardware, for power",
}


class NoDriver(Exception):
    """No NVIDIA driver was found, or it does not answer (`broken`)."""

    def __init__(self, reason: str, broken: bool) -> None:
        super().__init__(reason)
        self.broken = broken


class GpuLost(Exception):
    """The GPU dropped off the bus, or its driver is gone."""


@dataclass(frozen=True, slots=True)
class Device:
    """One GPU or MIG slice. If it could not be opened, the handle is None and `problem` says why."""

    index: int
    """Position in the driver's order (by PCI bus), as in nvidia-smi and Ray."""
    uuid: str
    name: str
    handle: Any
    problem: str = ""

    def __str__(self) -> str:
        return f"GPU {self.index} ({', '.join(part for part in (self.name, self.uuid) if part) or 'unknown'})"


def ask_driver(question: Callable[[Driver], T], otherwise: T, patience_s: float = 20.0) -> T:
    """Ask the driver `question`; return `otherwise`, and log, if there is no driver or no answer in time."""
    answers: list[T] = []
    asking = threading.Thread(target=_ask, args=(question, answers), name="curator-bench GPU question", daemon=True)
    asking.start()
    asking.join(patience_s)
    if asking.is_alive():
        log_absence(NoDriver(f"the driver did not answer within {patience_s:g} s", broken=True))
    return answers[0] if answers else otherwise


def _ask(question: Callable[[Driver], T], answers: list[T]) -> None:
    try:
        driver = open_driver()
        try:
            answers.append(question(driver))
        finally:
            driver.close()
    except NoDriver as absence:
        log_absence(absence)
    except Exception as failure:  # a failed GPU query never ends a run
        log_absence(NoDriver(f"{type(failure).__name__}: {failure}", broken=True))


def log_absence(absence: NoDriver) -> None:
    """Log that there is no driver: a warning if it is broken, debug on a machine without GPUs."""
    _log_once(logging.WARNING if absence.broken else logging.DEBUG, str(absence))


@cache
def _log_once(level: int, reason: str) -> None:
    logger.log(level, "GPUs are not measured: %s", reason)


def open_driver() -> Driver:
    """Open the driver. Raises NoDriver if there is none."""
    try:
        import pynvml
    except ImportError as missing:
        raise NoDriver(f"the package nvidia-ml-py is not installed: {missing}", broken=False) from missing
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError as refusal:
        absent = (pynvml.NVML_ERROR_LIBRARY_NOT_FOUND, pynvml.NVML_ERROR_DRIVER_NOT_LOADED, pynvml.NVML_ERROR_NOT_FOUND)
        raise NoDriver(f"NVML: {refusal}", broken=refusal.value not in absent) from refusal
    return Driver(pynvml)


class Driver:
    """The opened library. Questions the GPU or the driver cannot answer return None."""

    def __init__(self, pynvml: Any) -> None:
        self._nvml = pynvml
        self._lost = (
            pynvml.NVML_ERROR_GPU_IS_LOST,
            pynvml.NVML_ERROR_GPU_NOT_FOUND,
            pynvml.NVML_ERROR_UNINITIALIZED,
        )

    def close(self) -> None:
        self._optional(self._nvml.nvmlShutdown)

    def cuda_version(self) -> str | None:
        """The newest version of CUDA that it supports."""
        version = self._optional(self._nvml.nvmlSystemGetCudaDriverVersion_v2)
        return None if version is None else f"{version // 1000}.{version % 1000 // 10}"

    def version(self) -> str | None:
        version = self._optional(self._nvml.nvmlSystemGetDriverVersion)
        return None if version is None else str(version)

    def devices(self) -> list[Device]:
        """List every GPU of the machine, regardless of CUDA_VISIBLE_DEVICES."""
        return [self._device(index) for index in range(self._optional(self._nvml.nvmlDeviceGetCount) or 0)]

    def visible_devices(self, environ: Mapping[str, str]) -> list[Device]:
        """List the GPUs that a process with this environment can use. Like CUDA, stop at the first unknown word."""
        devices = self.devices()
        words = visible_words(environ)
        if words is None:
            return devices
        chosen = takewhile(lambda device: device is not None, (self._chosen(word, devices) for word in words))
        return list({device.uuid or device.index: device for device in chosen if device is not None}.values())

    def ask(self, device: Device, function: str, *arguments: Any) -> Any:
        """Call a function of the library for a device; None if it has no answer.

        Raises GpuLost if the device stopped answering.
        """
        if device.handle is None:
            raise GpuLost(device.problem)
        call = getattr(self._nvml, function, None)  # older versions of pynvml lack some functions
        try:
            return call and call(device.handle, *arguments)
        except self._nvml.NVMLError as refusal:
            if refusal.value in self._lost:
                raise GpuLost(str(refusal)) from refusal
            return None

    def memory(self, device: Device) -> tuple[int, int] | None:
        """Used and total bytes. Memory that the driver keeps for itself is not counted as used, if it tells."""
        answer = self.ask(device, "nvmlDeviceGetMemoryInfo", self._nvml.nvmlMemory_v2)
        answer = answer or self.ask(device, "nvmlDeviceGetMemoryInfo")
        return None if answer is None else (int(answer.used), int(answer.total))

    def temperature(self, device: Device) -> int | None:
        answer = self.ask(device, "nvmlDeviceGetTemperature", self._nvml.NVML_TEMPERATURE_GPU)
        if answer is None:  # the newer call, in case the older one was removed
            answer = self.ask(device, "nvmlDeviceGetTemperatureV", self._nvml.NVML_TEMPERATURE_GPU)
        return None if answer is None else int(answer)

    def processes(self, device: Device) -> tuple[int, ...] | None:
        """Pids of the programs that use the device, in the machine's numbering, not a container's."""
        compute = self.ask(device, "nvmlDeviceGetComputeRunningProcesses")
        graphics = self.ask(device, "nvmlDeviceGetGraphicsRunningProcesses")
        if compute is None and graphics is None:
            return None
        return tuple(sorted({int(process.pid) for process in (*(compute or ()), *(graphics or ()))}))

    def slowdowns(self, device: Device) -> tuple[str, ...] | None:
        """Reasons for which its clock is lower than asked for right now; None if the driver does not tell."""
        reasons = self.ask(device, "nvmlDeviceGetCurrentClocksEventReasons")
        if reasons is None:  # the name of the call before driver 535
            reasons = self.ask(device, "nvmlDeviceGetCurrentClocksThrottleReasons")
        return None if reasons is None else tuple(what for bit, what in _SLOWDOWNS.items() if reasons & bit)

    def field(self, device: Device, number: int) -> int | None:
        """Value of one of NVML's numbered fields."""
        answers = self.ask(device, "nvmlDeviceGetFieldValues", [number])
        known = answers is not None and answers[0].nvmlReturn == self._nvml.NVML_SUCCESS
        return int(answers[0].value.uiVal) if known else None

    def watch_faults(self, devices: Sequence[Device]) -> FaultWatch | None:
        """Listen for faults (Xid) of these devices from now on; None if the driver does not report faults."""
        events = self._optional(self._nvml.nvmlEventSetCreate)
        if events is None:
            return None
        for device in devices:
            if device.handle is not None:
                kind = self._nvml.nvmlEventTypeXidCriticalError
                self._optional(self._nvml.nvmlDeviceRegisterEvents, device.handle, kind, events)
        return FaultWatch(self._nvml, events)

    def _device(self, index: int) -> Device:
        try:
            handle = self._nvml.nvmlDeviceGetHandleByIndex(index)
        except self._nvml.NVMLError as refusal:
            return Device(index, "", "", None, str(refusal))
        uuid = self._optional(self._nvml.nvmlDeviceGetUUID, handle)
        name = self._optional(self._nvml.nvmlDeviceGetName, handle)
        return Device(index, str(uuid or ""), str(name or ""), handle)

    def _chosen(self, word: str, devices: Sequence[Device]) -> Device | None:
        return self._slice(word, devices) if word.startswith("MIG-") else find_device(word, devices)

    def _slice(self, uuid: str, devices: Sequence[Device]) -> Device | None:
        handle = self._optional(self._nvml.nvmlDeviceGetHandleByUUID, uuid.encode())
        if handle is None:
            return None
        whole = self._optional(self._nvml.nvmlDeviceGetDeviceHandleFromMigDeviceHandle, handle)
        index = None if whole is None else self._optional(self._nvml.nvmlDeviceGetIndex, whole)
        name = next((device.name for device in devices if device.index == index), "")
        return Device(-1 if index is None else int(index), uuid, f"{name} MIG".strip(), handle)

    def _optional(self, function: Callable[..., Any], *arguments: Any) -> Any:
        try:
            return function(*arguments)
        except self._nvml.NVMLError:
            return None


class FaultWatch:
    """Faults reported since this object was made. The driver does not report earlier ones."""

    def __init__(self, pynvml: Any, events: Any) -> None:
        self._nvml = pynvml
        self._events = events

    def news(self) -> Iterator[tuple[str, int]]:
        """Yield GPU uuid and fault number (Xid) of each fault since the last call."""
        for _ in range(_MOST_FAULTS_AT_ONCE):
            try:
                event = self._nvml.nvmlEventSetWait_v2(self._events, 0)
                yield str(self._nvml.nvmlDeviceGetUUID(event.device)), int(event.eventData)
            except self._nvml.NVMLError:  # usually the timeout: no event is waiting
                return

    def close(self) -> None:
        with suppress(self._nvml.NVMLError):
            self._nvml.nvmlEventSetFree(self._events)


def visible_words(environ: Mapping[str, str]) -> list[str] | None:
    """Words of CUDA_VISIBLE_DEVICES; None if it is not set, so that every GPU is visible."""
    listed = environ.get("CUDA_VISIBLE_DEVICES")
    return None if listed is None else [word.strip() for word in listed.split(",")]


def find_device(word: str, devices: Sequence[Device]) -> Device | None:
    """Find the device with this index, or the only one whose uuid has this prefix."""
    if word.isdecimal():
        return next((device for device in devices if device.index == int(word)), None)
    alike = [device for device in devices if word.startswith("GPU-") and device.uuid.startswith(word)]
    return alike[0] if len(alike) == 1 else None
