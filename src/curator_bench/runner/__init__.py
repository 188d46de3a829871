"""Conducts the runs of a session: decides what runs next, starts it, records and judges it.

`policy` decides: a pure function from what happened so far to what comes next. `conductor` asks it after each run. A
`runner.Runner` executes runs: in this process (`local_runner`), in a fleet (`fleet_runner`) or in simulated time
(`simulated_runner`). `running` and `fleet_session` connect a conductor with pytest's items. `judging` judges a run by
its requirements and, with `gates`, by its history; `run_records` makes the record of it, and `recording` its row.
`session` holds the folders and facts of the session; `joining`, `claiming`, `resume` and `kept_runs` share it between
invocations.
"""
