"""The choice of usage reader: /proc on Linux, psutil elsewhere."""

from __future__ import annotations

import sys

from curator_bench.measure.usage import UsageReader


def usage_reader() -> UsageReader:
    """Make the reader for this operating system."""
    if sys.platform == "linux":
        from curator_bench.measure.procfs import ProcReader

        return ProcReader()
    from curator_bench.measure.portable import PsutilReader

    return PsutilReader()
