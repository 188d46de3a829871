"""The findings of the recorded history, and why two sides differ: what changed between two runs."""
