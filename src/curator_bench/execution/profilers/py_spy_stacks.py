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

_PROCESS = re.compile(r'(?:^|";)process \d+:"')
_COUNT = re.compile(r"^(.*) (\d{1,15})$", re.DOTALL)
_FRAME = re.compile(r"^(.*) \(([^()]*|<.*>)\)$")
_LINE = re.compile(r":(\d+)$")
_RAYS_OWN = re.compile(r"ray/(?:dashboard/|_private/(?:log_monitor|runtime_env/)|autoscaler/_private/monitor)")
"""Command lines of Ray's own Python processes, which run beside the workers."""
_WORKER_LOOP = "main_loop", "ray/_private/worker.py"
"""Last Python function of a worker of Ray that has nothing to do."""
_CHANCE = 2.0
"""Standard deviations by which counts differ by chance."""


@dataclass(frozen=True, slots=True)
class Frame:
    function: str
    file: str
    line: int = 0


Stack = tuple[Frame, ...]


def stacks_of_recordings(computing: str, everything: str) -> dict[tuple[str, ...], int]:
    """Return the stacks of a profile from two recordings: of the threads that computed, and of all threads."""
    active, all_of_them = stacks_in(computing), stacks_in(everything)
    found: Counter[tuple[str, ...]] = Counter()
    for stack, count in active.items():
        found[named(stack)] += count
    for stack, count in waiting(active, all_of_them).items():
        found[(*named(stack), WAITING)] += count
    return dict(found)


def stacks_in(recording: str) -> Counter[Stack]:
    """Read the stacks of a recording, without processes of Ray itself, and without workers that have nothing to do."""
    found: Counter[Stack] = Counter()
    for command, frames, count in _records(recording):
        stack = tuple(map(_frame, frames))
        if stack and not _RAYS_OWN.search(command) and not _is_idle_worker(stack):
            found[stack] += count
    return found


def waiting(active: Mapping[Stack, int], every: Mapping[Stack, int]) -> dict[Stack, int]:
    """Return the stacks that were waiting, with Python frames only: as often as they were seen beyond computing."""
    python = Counter[Stack]()
    for stack, count in every.items():
        python[_of_python(stack)] += count
    seen, computed = _by_end(python), _by_end(active)
    shares = {end: _waiting_share(count, computed[end]) for end, count in seen.items()}
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


def _waiting_share(seen: int, computed: int) -> float:
    """Return the share of a line's samples that waited; 0 if chance explains the difference."""
    beyond = seen - computed
    return beyond / seen if beyond > _CHANCE * math.sqrt(seen + computed) else 0.0


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
    pending = ""
    for line in recording.split("\n"):
        pending += line
        if (record := _record(pending)) is None:
            pending += "\n"
            continue
        pending = ""
        if record[1]:
            yield record


def _record(text: str) -> tuple[str, list[str], int] | None:
    """Return a whole record; None if the text ends within a command line. Not a record: no frames."""
    begins = [found.end() for found in _PROCESS.finditer(text)]
    ends = text.rfind('";')
    if begins and ends < begins[-1]:
        return None
    command, rest = (text[begins[-1] : ends], text[ends + 2 :]) if begins else ("", text)
    found = _COUNT.match(rest)
    if found is None:
        return None if begins else ("", [], 0)
    return command, found.group(1).split(";"), int(found.group(2))


def _frame(text: str) -> Frame:
    found = _FRAME.match(text)
    if found is None:
        return Frame(text, "?")
    line = _LINE.search(found.group(2))
    return Frame(found.group(1), _LINE.sub("", found.group(2)), int(line.group(1)) if line else 0)


def _is_idle_worker(stack: Iterable[Frame]) -> bool:
    last = [frame for frame in stack if is_python(frame.file)][-1:]
    return bool(last) and last[0].function == _WORKER_LOOP[0] and last[0].file.endswith(_WORKER_LOOP[1])
