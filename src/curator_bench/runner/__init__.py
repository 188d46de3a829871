"""Conducts the runs of a session, here or in a fleet: decides what comes next, and writes it down."""
