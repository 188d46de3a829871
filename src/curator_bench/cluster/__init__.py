"""Starts, attaches to and stops Ray clusters. What talks to Ray runs in child processes, but for `Cluster.driver()`.

`providers.Clusters` picks the provider for a run's settings; `model` says what a cluster is, `health` whether it lives.
"""
