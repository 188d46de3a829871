"""Runs plans side by side on a standing Ray cluster. Ray is the scheduler: it finds the machine, hands out its GPUs,
and queues the rest.

One run, from left to right:

    pytest process                 driver (its child)         Ray worker on some node          guard there
    Fleet.submit(Order)     ──▶    a Ray task for a Slice ──▶  node.run_on_node
    Started: the row        ◀──    Board (an actor)       ◀──    "it is here now"               watches the worker
                                                                 run_entry(plan), as always
    Ended: judge, record    ◀──    RunResult              ◀──    RunResult

* `messages` has the values that travel, `slices` says what a plan asks of Ray and what its own cluster gets of that.
* `Fleet` is all the pytest process sees: orders go in, events come out. The driver (`driver_program`) is the only
  process of the session that is a driver of the fleet's cluster, so that the pytest process never is.
* A worker or a node that dies is the event `Lost`. Whether a run is tried again, and where, the pytest process decides.
* Whoever ends: pytest's own guard ends the driver and a cluster of ours; Ray ends its workers; the guard of a worker,
  which is no child of it, ends what was running there.
"""
