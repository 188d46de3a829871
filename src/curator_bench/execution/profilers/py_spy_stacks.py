"""From the recordings of py-spy to the stacks of a profile, computing and waiting told apart.

There are two recordings of the same time. One has the threads that computed, the other all threads. py-spy says of no
single sample whether its thread waited, and both recordings are random samples, so their counts differ by chance. They
are therefore compared where a stack ends, by line: a line nearly always either computes or waits, and is seen often.
What the second recording has of a line beyond the first, and beyond chance, was waiting.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from curator_bench.execution.profilers.frames import frame_of, is_python
from curator_bench.profiles import clean_stack
from curator_bench.values import WAITING

_NEXT_RECORD = re.compile(r'\n(?=process \d+:")')
_PROCESS = re.compile(r'(?:^|";)process \d+:"')
_COUNT = re.compile(r"^(.*) (\d{1,15})$", re.DOTALL)
_FRAME = re.compile(r"^(.*) \(([^()]*|<.*>)\)$")
_LINE = re.compile(r":(\d+)$")
_RAYS_OWN = re.compile(r"ray::\w*Agent\b|ray/(?:dashboard/|_private/(?:log_monitor|runtime_env/)|autoscaler/_private/)")
"""Command lines of Ray's own Python processes, which run beside the workers."""
_RAYS_THREADS = ("ray/", "threading.py", "concurrent/", "asyncio/", "selectors.py", "queue.py", "grpc/")
"""Beginnings of the files of Ray's own threads, which run no code of a task."""
_WORKER_LOOP = "main_loop", "ray/_private/worker.py"
"""Last Python function of a worker of Ray that has nothing to do."""
_LATE = re.compile(r"([0-9.]+)s behind in sampling")
_CHANCE = 3.0
"""Standard deviations by which counts differ by chance. There are hundreds of lines, and all but a few only compute."""
_LEAST_NEVER_COMPUTING = 5
"""Samples of a line that is never seen computing, at which it waits."""


@dataclass(frozen=True, slots=True)
class Frame:
    function: str
    file: str
    line: int = 0


Stack = tuple[Frame, ...]


@dataclass(frozen=True, slots=True)
class Pace:
    """Return how many samples the first recording has for each one of the second, if nothing waits."""

    ratio: float = 1.0
    uncertainty: float = 0.0
    """Estimate what py-spy does not say: it reports that it is late only from a second on."""


def pace_of(seconds: float, said_of_computing: str, said_of_everything: str) -> Pace:
    """Return the pace of two recordings of the same seconds, from what both py-spys said."""
    taken = [max(1.0, seconds - _late_s(said)) for said in (said_of_computing, said_of_everything)]
    return Pace(min(1.0, taken[0] / taken[1]), min(0.5, 1.0 / max(1.0, seconds)))


def _late_s(said: str) -> float:
    """Return by how much a py-spy was late at last: samples that it has not taken."""
    found = _LATE.findall(said)
    return float(found[-1]) if found else 0.0


def stacks_of_recordings(computing: str, everything: str, pace: Pace = Pace()) -> dict[tuple[str, ...], int]:
    """Return the stacks of a profile from two recordings: of the threads that computed, and of all threads."""
    active, all_of_them = stacks_in(computing), stacks_in(everything)
    found: Counter[tuple[str, ...]] = Counter()
    for stack, count in active.items():
        found[named(stack)] += max(1, round(count / pace.ratio))
    for stack, count in waiting(active, all_of_them, pace).items():
        found[(*named(stack), WAITING)] += count
    return dict(found)


def stacks_in(recording: str) -> Counter[Stack]:
    """Read the stacks of a recording, without processes of Ray itself, and without workers that have nothing to do."""
    found: Counter[Stack] = Counter()
    for command, frames, count in _records(recording):
        stack = tuple(map(_frame, frames))
        is_rays = _RAYS_OWN.search(command) or _is_idle_worker(stack) or _is_rays_thread(stack)
        if stack and not is_rays:
            found[stack] += count
    return found


def waiting(active: Mapping[Stack, int], every: Mapping[Stack, int], pace: Pace = Pace()) -> dict[Stack, int]:
    """Return the stacks that were waiting, with Python frames only: as often as they were seen beyond computing."""
    python = Counter[Stack]()
    for stack, count in every.items():
        python[_of_python(stack)] += count
    seen, computed = _by_end(python), _by_end(active)
    shares = {end: _waiting_share(count, computed[end], pace) for end, count in seen.items()}
    left: dict[Frame, float] = {}
    found = {}
    for stack, count in sorted(python.items(), key=lambda pair: -pair[1]):
        end = stack[-1]
        exact = count * shares[end] + left.get(end, 0.0)  # what rounding leaves goes to the next stack of this line
        whole = round(exact)
        left[end] = exact - whole
        if whole > 0:
            found[stack] = whole
    return found


def _waiting_share(seen: int, computed: int, pace: Pace) -> float:
    """Return the share of a line's samples that waited; 0 if chance explains the difference."""
    if not computed:
        return float(seen >= _LEAST_NEVER_COMPUTING)
    beyond = seen - computed / pace.ratio
    chance = _CHANCE * math.sqrt(seen + computed / pace.ratio**2)
    return beyond / seen if beyond > max(chance, pace.uncertainty * seen) else 0.0


def _by_end(stacks: Mapping[Stack, int]) -> Counter[Frame]:
    found: Counter[Frame] = Counter()
    for stack, count in stacks.items():
        found[_of_python(stack)[-1]] += count
    return found


def _of_python(stack: Stack) -> Stack:
    """Return the frames of Python code; all of them if there are none."""
    return tuple(frame for frame in stack if is_python(frame.file)) or stack


def named(stack: Stack) -> tuple[str, ...]:
    """Return the names of the frames, without native code that started Python.

    Several addresses in a row in one library are one frame.
    """
    first = next((index for index, frame in enumerate(stack) if is_python(frame.file)), 0)
    names: list[str] = []
    for frame in stack[first:]:
        name = frame_of(frame.function, frame.file)
        if not (names and names[-1] == name and ":" not in name):
            names.append(name)
    return clean_stack(names)


def _records(recording: str) -> Iterator[tuple[str, list[str], int]]:
    """Yield command line, frames and count of each record. A command line may hold anything, also line breaks."""
    for text in _NEXT_RECORD.split(recording):
        begins = [found.end() for found in _PROCESS.finditer(text)]
        ends = text.rfind('";')
        if begins and ends < begins[-1]:  # a thread without a frame
            continue
        command, rest = (text[begins[-1] : ends], text[ends + 2 :]) if begins else ("", text)
        if found := _COUNT.match(rest.rstrip("\n")):
            yield command, found.group(1).split(";"), int(found.group(2))


def _frame(text: str) -> Frame:
    found = _FRAME.match(text)
    if found is None:
        return Frame(text, "?")
    line = _LINE.search(found.group(2))
    return Frame(found.group(1), _LINE.sub("", found.group(2)), int(line.group(1)) if line else 0)


def _is_rays_thread(stack: Stack) -> bool:
    """True for a thread that Ray started in a driver or worker for itself."""
    files = [frame.file for frame in stack if is_python(frame.file)]
    return files[:1] == ["threading.py"] and all(file.startswith(_RAYS_THREADS) for file in files) and _names_ray(files)


def _names_ray(files: Iterable[str]) -> bool:
    return any(file.startswith("ray/") for file in files)


def _is_idle_worker(stack: Iterable[Frame]) -> bool:
    last = [frame for frame in stack if is_python(frame.file)][-1:]
    return (
        bool(last) and last[0].function.rpartition(".")[2] == _WORKER_LOOP[0] and last[0].file.endswith(_WORKER_LOOP[1])
    )
