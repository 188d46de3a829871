"""curator-bench: a pytest plugin in which benchmarks are test cases."""

__version__ = "0.1.0"
