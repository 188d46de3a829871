"""Why two sides differ: what changed between two runs, from what was recorded of both."""
