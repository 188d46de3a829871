"""Collects matrices: which files they are, the benchmarks of a process, and entries as pytest items."""
