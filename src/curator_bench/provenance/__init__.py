"""Provenance of a run: git, packages, machine, environment."""
