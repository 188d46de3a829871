"""Starts, attaches to and stops Ray clusters. What talks to Ray runs in child processes, but for `Cluster.driver()`."""
