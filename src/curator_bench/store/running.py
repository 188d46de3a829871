"""Constants that identify a run under way.

They are apart from the models, which need the ORM: opening a database looks for such runs first, and rarely finds any.
"""

RUNNING = "running"
"""Stored in place of the verdict until the run ends."""

RUNS = "test_run"
IS_RUNNING = f"verdict = '{RUNNING}'"
