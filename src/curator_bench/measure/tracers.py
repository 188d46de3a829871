"""What traces the Python code of this thread: coverage, a debugger, a profiler."""

from __future__ import annotations

import sys


def tracer_here() -> str:
    """Return the name of the package that traces this thread; empty if none does."""
    function = sys.gettrace() or sys.getprofile()
    if function is not None:
        return str(getattr(function, "__module__", None) or type(function).__module__).partition(".")[0]
    return _monitor()


def _monitor() -> str:
    """Return a tool that is told of events, as coverage is from Python 3.14 on."""
    monitoring = getattr(sys, "monitoring", None)  # from Python 3.12 on
    if monitoring is None:
        return ""
    tools = (monitoring.DEBUGGER_ID, monitoring.COVERAGE_ID, monitoring.PROFILER_ID)
    return next((name for tool in tools if (name := monitoring.get_tool(tool))), "")
