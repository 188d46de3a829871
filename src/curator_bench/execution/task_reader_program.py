"""Program that opens one tasks.pkl. It runs by path, in the script's interpreter, in its own process.

It imports nothing of ours (standard library, Python 3.8 or newer), because that interpreter may not have curator_bench.
It writes JSON to its own descriptor, because a pickle may print. Missing classes do not keep it from the numbers.
"""

from __future__ import annotations

import gc
import importlib
import importlib.util
import json
import math
import os
import pickle
import signal
import sys
from collections.abc import Iterator, Mapping
from typing import Any, BinaryIO

PREFIX = "task"
# Labels of NeMo Curator's StagePerfStats. They are not measurements, even if they look like numbers.
LABELS = frozenset(
    [
        *("stage_name", "actor_id", "node_id", "gpu_id", "physical_address"),
        *("pod_ip", "hostname", "gpu_indices", "gpu_uuids"),
    ]
)
NESTED_METRICS = ("custom_metrics", "custom_stats")
# Modules a pickle needs for plain values; always imported.
PLAIN_MODULES = frozenset(["_codecs", "builtins", "collections", "copyreg", "datetime", "numpy"])
SHOWN = 3
SECONDS = "process_time"
"""Measurement of NeMo Curator's StagePerfStats with the seconds a stage worked on a batch."""
MOST_STAGES = 500


class NotTasks(Exception):
    """The pickle is valid, but contains nothing in which tasks can be found."""


class StandIn:
    """Substitute for an object whose class cannot be imported. It keeps the pickled state."""

    def __new__(cls, *_args: Any, **_kwargs: Any) -> StandIn:
        return object.__new__(cls)

    def __init__(self, *_args: Any, **_kwargs: Any) -> None:
        pass

    def __setstate__(self, state: Any) -> None:
        for part in state if isinstance(state, tuple) else (state,):
            if isinstance(part, dict):
                self.__dict__.update(part)

    def append(self, item: Any) -> None:
        self.__dict__.setdefault("_items_", []).append(item)

    def extend(self, items: Any) -> None:
        for item in items:
            self.append(item)

    def add(self, item: Any) -> None:
        self.append(item)

    def __setitem__(self, key: Any, value: Any) -> None:
        self.__dict__.setdefault("_pairs_", {})[key] = value


class TolerantUnpickler(pickle.Unpickler):
    """Unpickler with stand-ins for missing classes; with `importing` false, for all classes but those of plain
    values."""

    def __init__(self, file: BinaryIO, *, importing: bool) -> None:
        super().__init__(file)
        self.importing = importing
        self.missing: dict[str, str] = {}
        self._stand_ins: dict[str, type[StandIn]] = {}

    def find_class(self, module: str, name: str, /) -> Any:
        # The script's own classes are in __main__ in its pickle, and here __main__ is this program.
        if module == "__main__":
            return self._stand_in(module, name, "defined in the script itself")
        if not self.importing and module.partition(".")[0] not in PLAIN_MODULES:
            return self._stand_in(module, name, "not imported")
        try:
            return super().find_class(module, name)
        except Exception as error:  # any import error: the numbers can be read without the class
            return self._stand_in(module, name, in_words(error))

    def _stand_in(self, module: str, name: str, reason: str) -> type[StandIn]:
        full_name = f"{module}.{name}"
        self.missing.setdefault(full_name, reason)
        if full_name not in self._stand_ins:
            self._stand_ins[full_name] = type(name.rpartition(".")[2], (StandIn,), {"__module__": module})
        return self._stand_ins[full_name]


class TaskNumbers:
    """Values of the measurements of one pipeline's tasks by stage and metric. Each measurement counts once."""

    def __init__(self) -> None:
        self.values: dict[tuple[str, str], list[float]] = {}
        self.unread: list[str] = []
        self._seen: set[int] = set()

    def add_task(self, task: Any) -> None:
        for measurement in attribute(task, "_stage_perf") or ():
            # A batch that fans out passes the same object to each of its tasks.
            if id(measurement) not in self._seen:
                self._seen.add(id(measurement))
                self._add_measurement(measurement)

    def _add_measurement(self, measurement: Any) -> None:
        stage = str(attribute(measurement, "stage_name"))
        for name, value in named_values(measurement):
            try:
                number = float(value)
            except (TypeError, ValueError, OverflowError):
                self.unread.append(f"{stage}.{name}")
            else:
                self.values.setdefault((stage, str(name)), []).append(number)

    def stages(self, prefix: str) -> list[list[Any]]:
        """Name, number of measurements and seconds of each stage; the seconds are null if they are unknown."""
        found: dict[str, list[Any]] = {}
        for (stage, name), values in self.values.items():
            known = found.setdefault(stage, [prefix + stage, 0, None])
            known[1] = max(known[1], len(values))
            if name == SECONDS:
                seconds = exact_sum(values)
                known[2] = seconds if math.isfinite(seconds) and seconds >= 0 else None
        return list(found.values())

    def aggregated(self, prefix: str) -> dict[str, float]:
        metrics: dict[str, float] = {}
        for (stage, name), values in self.values.items():
            total, mean, deviation = sum_mean_and_deviation(values)
            stem = f"{prefix}_{stage}_{name}"
            metrics.update({f"{stem}_sum": total, f"{stem}_mean": mean, f"{stem}_std": deviation})
        return metrics


def sum_mean_and_deviation(values: list[float]) -> tuple[float, float, float]:
    """Sum, mean and standard deviation of the population, as in numpy."""
    total = exact_sum(values)
    mean = total / len(values)
    variance = exact_sum([(value - mean) * (value - mean) for value in values]) / len(values)
    return total, mean, math.sqrt(variance)


def exact_sum(values: list[float]) -> float:
    try:
        return math.fsum(values)
    except (OverflowError, ValueError):  # intermediate overflow, or both infinities
        return sum(values)


def named_values(measurement: Any) -> Iterator[tuple[str, Any]]:
    """Yield name and value of each number of a measurement: its own `items()`, or its attributes."""
    own_items = getattr(measurement, "items", None)
    if callable(own_items) and not isinstance(measurement, (Mapping, StandIn)):
        yield from own_items()
        return
    fields = measurement if isinstance(measurement, Mapping) else attributes_of(measurement)
    for name, value in fields.items():
        if name in NESTED_METRICS and isinstance(value, Mapping):
            yield from ((f"custom.{key}", nested) for key, nested in value.items())
        elif name not in LABELS and not str(name).startswith("_") and not isinstance(value, (str, type(None))):
            yield name, value


def attributes_of(thing: Any) -> dict[str, Any]:
    slots = [slot for kind in type(thing).__mro__ for slot in names_of_slots(kind)]
    return {**{slot: getattr(thing, slot) for slot in slots if hasattr(thing, slot)}, **getattr(thing, "__dict__", {})}


def names_of_slots(kind: type) -> tuple[str, ...]:
    slots = kind.__dict__.get("__slots__", ())
    return (slots,) if isinstance(slots, str) else tuple(slots)


def attribute(thing: Any, name: str) -> Any:
    return thing.get(name) if isinstance(thing, Mapping) else getattr(thing, name, None)


def is_task(thing: Any) -> bool:
    return "_stage_perf" in thing if isinstance(thing, Mapping) else hasattr(thing, "_stage_perf")


def pipelines_of(content: Any) -> dict[str, list[Any]]:
    """Tasks by name of their pipeline, "" if there is only one.

    The content is a list, a mapping, or a workflow's result.
    """
    content = without_stand_in(getattr(content, "pipeline_tasks", content))
    if not isinstance(content, Mapping) or is_task(content):
        return {"": tasks_of(content)}
    nested = content.get("pipeline_tasks")
    named = nested if isinstance(nested, Mapping) else content
    return {str(name): tasks_of(tasks) for name, tasks in named.items()}


def tasks_of(content: Any) -> list[Any]:
    content = without_stand_in(content)
    if content is None:
        return []
    if is_task(content):
        return [content]
    if isinstance(content, (list, tuple, set, frozenset)):
        return list(content)
    raise NotTasks(f"holds {type(content).__name__}, not a list of tasks or a mapping of names to such lists")


def without_stand_in(content: Any) -> Any:
    """Content of a list or mapping whose own class is missing."""
    if isinstance(content, StandIn):
        return content.__dict__.get("_pairs_", content.__dict__.get("_items_", content))
    return content


def numbers_of(pipelines: dict[str, list[Any]]) -> dict[str, TaskNumbers]:
    found: dict[str, TaskNumbers] = {}
    for pipeline, tasks in pipelines.items():
        numbers = found[pipeline] = TaskNumbers()
        for task in tasks:
            numbers.add_task(task)
    return found


def stages_of(numbers: dict[str, TaskNumbers]) -> list[list[Any]]:
    return [stage for pipeline, own in numbers.items() for stage in own.stages(f"{pipeline}." if pipeline else "")][
        :MOST_STAGES
    ]


def own_metrics(numbers: dict[str, TaskNumbers], warnings: list[str]) -> dict[str, float]:
    metrics: dict[str, float] = {}
    unread: list[str] = []
    for pipeline, own in numbers.items():
        metrics.update(own.aggregated(f"{PREFIX}_{pipeline}" if pipeline else PREFIX))
        unread += own.unread
    if unread:
        warnings.append(f"has {len(unread)} measurements that are not numbers: {some_of(unread)}")
    return metrics


def without_measurements(pipelines: dict[str, list[Any]]) -> list[str]:
    return [type(task).__name__ for tasks in pipelines.values() for task in tasks if not is_task(task)]


def nemo_curator_metrics(content: Any) -> dict[str, float]:
    utilities = importlib.import_module("nemo_curator.tasks.utils")
    metrics = utilities.TaskPerfUtils.aggregate_task_metrics(content, prefix=PREFIX)
    return {str(name): float(value) for name, value in metrics.items()}


def is_for_nemo_curator(pipelines: dict[str, list[Any]], missing: dict[str, str]) -> bool:
    """True if NeMo Curator is installed and can read the tasks: no stand-ins and no dictionaries."""
    tasks = [task for tasks in pipelines.values() for task in tasks]
    knows_them = not missing and not any(isinstance(task, Mapping) for task in tasks)
    return bool(tasks) and knows_them and importlib.util.find_spec("nemo_curator") is not None


def metrics_of(
    content: Any,
    pipelines: dict[str, list[Any]],
    numbers: dict[str, TaskNumbers],
    missing: dict[str, str],
    warnings: list[str],
) -> dict[str, float]:
    strangers = without_measurements(pipelines)
    if strangers:
        warnings.append(f"has {len(strangers)} tasks without _stage_perf: {some_of(sorted(set(strangers)))}")
    elif is_for_nemo_curator(pipelines, missing):
        try:
            return nemo_curator_metrics(content)
        except Exception as error:  # this version may lack it or reject these objects
            warnings.append(f"was read without NeMo Curator's TaskPerfUtils: {in_words(error)}")
    return own_metrics(numbers, warnings)


def read(file: BinaryIO, *, importing: bool) -> dict[str, Any]:
    unpickler = TolerantUnpickler(file, importing=importing)
    content = unpickler.load()
    warnings: list[str] = []
    if unpickler.missing:
        warnings.append(f"was read without classes that cannot be imported: {described(unpickler.missing)}")
    pipelines = pipelines_of(content)
    numbers = numbers_of(pipelines)
    metrics = metrics_of(content, pipelines, numbers, unpickler.missing, warnings)
    return {"metrics": metrics, "stages": stages_of(numbers), "warnings": warnings}


def report_on(file: BinaryIO) -> dict[str, Any]:
    """Read the file, or report why that fails. If a class fails while loading, read it without classes."""
    try:
        return read(file, importing=True)
    except NotTasks as error:
        return {"metrics": {}, "warnings": [str(error)]}
    except Exception as error:  # a pickle may raise anything
        reason = in_words(error)
    file.seek(0)
    try:
        found = read(file, importing=False)
    except Exception:  # report the first reason
        return {"metrics": {}, "warnings": [f"cannot be read: {reason}"]}
    return {**found, "warnings": [f"was read without its classes: {reason}"]}


def in_words(error: Exception) -> str:
    if isinstance(error, MemoryError):
        return "it needs more memory than allowed"
    return f"{type(error).__name__}: {error}"[:300] if str(error) else type(error).__name__


def described(missing: dict[str, str]) -> str:
    return some_of([f"{name} ({reason})" for name, reason in missing.items()])


def some_of(names: list[str]) -> str:
    return ", ".join(names[:SHOWN]) + (f" and {len(names) - SHOWN} more" if len(names) > SHOWN else "")


def stay_within(seconds: int, memory_bytes: int, address_bytes: int, file_bytes: int) -> None:
    """Limit this process, so that the limits hold even without a supervisor."""
    import resource

    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.alarm(seconds)
    bounds = {"DATA": memory_bytes, "AS": address_bytes, "FSIZE": file_bytes, "CORE": 0}
    for name, most in bounds.items():
        kind = getattr(resource, f"RLIMIT_{name}")
        hard = resource.getrlimit(kind)[1]
        most = most if hard == resource.RLIM_INFINITY else min(most, hard)
        try:
            resource.setrlimit(kind, (most, most))
        except (OSError, ValueError):  # macOS does not know all of them
            continue


def main(arguments: list[str]) -> None:
    tasks, report, *bounds = map(int, arguments)
    # The modules beside this program are curator_bench's, not the script's.
    beside = os.path.dirname(os.path.abspath(__file__))
    sys.path[:] = [folder for folder in sys.path if folder != beside]
    stay_within(*bounds)
    # Collecting garbage again and again takes most of the time of loading many objects, none of which is garbage.
    gc.disable()
    with open(tasks, "rb") as file:
        found = report_on(file)
    with open(report, "w", encoding="utf-8", errors="replace") as answer:
        json.dump(found, answer)
    os._exit(0)  # skip exit handlers and destructors from the pickle


if __name__ == "__main__":
    main(sys.argv[1:])
