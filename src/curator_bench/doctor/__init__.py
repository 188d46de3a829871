"""Examines whether this machine is fit to measure, and for what a matrix asks. It changes nothing."""
