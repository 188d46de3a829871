"""Where results are reported to: the base class, what sinks are told, and the built-in sinks, one module each."""

from curator_bench.sinks.sink import Context, Refused, Sink, SinkConfig, TryLater
from curator_bench.sinks.told import Result, Run, Session, Summary

__all__ = ["Context", "Refused", "Result", "Run", "Session", "Sink", "SinkConfig", "Summary", "TryLater"]
