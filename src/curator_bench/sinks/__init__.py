"""Where results are reported to: the base class, and the built-in sinks, one module each."""

from curator_bench.sinks.sink import Context, Refused, Sink, SinkConfig, TryLater
from curator_bench.values import Run, RunRecord, Session, Summary

Result = RunRecord
"""The name of the first release."""

__all__ = ["Context", "Refused", "Result", "Run", "RunRecord", "Session", "Sink", "SinkConfig", "Summary", "TryLater"]
