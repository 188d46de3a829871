"""The base class of sinks, and the built-in sinks, one module each. A sink is a place results are reported to."""

from curator_bench.sinks.sink import Context, Refused, Sink, SinkConfig, TryLater
from curator_bench.values import Run, RunRecord, Session, Summary

Result = RunRecord
"""Alias: the name of RunRecord in the first release."""

__all__ = ["Context", "Refused", "Result", "Run", "RunRecord", "Session", "Sink", "SinkConfig", "Summary", "TryLater"]
