"""Start, attach to and stop Ray clusters. Only child processes talk to Ray, except for `Cluster.driver()`.

`providers.Clusters` picks the provider for a run's settings; `model` defines a cluster, `health` checks it.
"""
