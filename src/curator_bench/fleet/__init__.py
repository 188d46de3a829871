"""Run plans side by side on a standing Ray cluster. Ray is the scheduler: it chooses the machine, hands out its GPUs,
and queues the rest.

One run, from left to right:

    pytest process                 driver (its child)         Ray worker on some node          guard there
    Fleet.submit(Order)     ──▶    a Ray task for a Slice ──▶  node.run_on_node
    Began: the row          ◀──    Board (an actor)       ◀──    "it is here now"               watches the worker
                                                                 run_entry(plan), as always
    Ended: judge, record    ◀──    RunResult              ◀──    RunResult

* `messages`: the values that travel. `slices`: the resources a plan asks Ray for, and the share its own cluster gets.
* `Fleet` is all the pytest process sees: orders go in, events come out. Only the driver (`driver_program`), a child
  process, connects to the fleet's cluster.
* `code_shipping`: code and scripts for nodes that lack them. `file_transfer`: the files of a run, back from such nodes.
* `quarantine`, `gpus`, `gpu_reservations`: nodes and GPUs with errors are not used again.
* When a worker or a node dies, the event `Lost` arrives. The pytest process decides whether and where the run is
  repeated.
* When the pytest process dies, its guard ends the driver and a cluster of ours. When a worker dies, the guard of that
  worker, which is not its child, ends the run.
"""
