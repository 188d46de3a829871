"""Decides what a run is: requirements and, later, history, as pure functions from numbers to a verdict."""
