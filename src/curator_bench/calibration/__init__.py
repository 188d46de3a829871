"""Limits of a matrix from its recorded history: what they are, what they should be, and writing them into its files."""
