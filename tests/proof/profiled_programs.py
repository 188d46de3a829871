"""Generates programs of 50 functions that compute and wait, one of which may take longer."""

from __future__ import annotations

import random
import time
from collections.abc import Sequence
from dataclasses import dataclass

FUNCTIONS = 50
KINDS = ("compute", "sleep", "lock", "select", "shared")
"""What a function does itself: `shared` computes in a function that others call too, `lock` waits in threading."""
_LARGEST_SHARE = 0.1
ROUND_S = 0.5
_HEAD = """\
import json, os, pathlib, select, sys, threading, time

NEVER = threading.Event()
READ, WRITE = os.pipe()
PER_MS = int(sys.argv[1])


def shared_leaf(ms):
    total = 0
    for number in range(int(ms * PER_MS)):
        total += number * number % 7
    return total

"""
_BODIES = {
    "compute": "total = 0\n    for number in range(int({ms} * PER_MS)):\n        total += number * number % 7",
    "sleep": "time.sleep({ms} / 1000)",
    "lock": "NEVER.wait({ms} / 1000)",
    "select": "select.select([READ], [], [], {ms} / 1000)",
    "shared": "shared_leaf({ms})",
}
_TAIL = """

if __name__ == "__main__":
    for _ in range(int(sys.argv[2])):
        function_0(0)
    results = pathlib.Path(sys.argv[-1])
    results.mkdir(parents=True, exist_ok=True)
    (results / "metrics.json").write_text(json.dumps({"is_success": True}))
"""


@dataclass(frozen=True, slots=True)
class Program:
    """A program, and which of its functions may become slower."""

    seed: int
    kind: str
    """What the function does that becomes slower."""

    @property
    def guilty(self) -> int:
        return 1 + random.Random(self.seed).randrange(FUNCTIONS - 1)

    def text(self, factor: float) -> str:
        """Return the program in which that function takes this many times as long."""
        chance = random.Random(self.seed + 1)
        shares = [1 / place for place in range(2, FUNCTIONS + 2)]
        chance.shuffle(shares)
        kinds = [chance.choice(KINDS) for _ in range(FUNCTIONS)]
        kinds[self.guilty] = self.kind
        rest = (1 - _LARGEST_SHARE) / (sum(shares) - shares[self.guilty])
        parts = [share * rest for share in shares]
        parts[self.guilty] = _LARGEST_SHARE * factor
        children: list[list[int]] = [[] for _ in range(FUNCTIONS)]
        for number in range(1, FUNCTIONS):
            children[chance.randrange(max(0, number - 12), number)].append(number)
        functions = [
            _function(number, kinds[number], 1000 * ROUND_S * parts[number], children[number], number % 5 == 3)
            for number in range(FUNCTIONS)
        ]
        return _HEAD + "\n\n".join(functions) + _TAIL


def _function(number: int, kind: str, ms: float, children: Sequence[int], is_recursive: bool) -> str:
    """Return a function that does its work, once at each of two depths if it calls itself, and calls others."""
    each = ms / 2 if is_recursive else ms
    lines = [f"def function_{number}(depth):", "    " + _BODIES[kind].format(ms=round(each, 4))]
    if is_recursive:
        lines += ["    if depth < 1:", f"        function_{number}(depth + 1)", "        return"]
    lines += [f"    function_{child}(0)" for child in children]
    return "\n".join(lines) + "\n"


def iterations_per_ms() -> int:
    """Measure how often the loop of a function runs in a millisecond."""
    fastest = min(_loop_s(100_000) for _ in range(5))
    return max(1, int(100_000 / (1000 * fastest)))


def _loop_s(count: int) -> float:
    began, total = time.perf_counter(), 0
    for number in range(count):
        total += number * number % 7
    return time.perf_counter() - began
