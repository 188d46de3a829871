"""What tells a run that has not ended. Apart from the models, which need the ORM: opening a database asks this first,
and nearly always learns that there is no such run."""

RUNNING = "running"
"""What stands in place of a verdict until there is one."""

RUNS = "test_run"
IS_RUNNING = f"verdict = '{RUNNING}'"
