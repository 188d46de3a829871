"""What was measured with what: git, packages, machine, environment."""
