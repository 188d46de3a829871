"""What the jobs of a CI system share: the record of all runs, the dashboard of it, the comment on a pull request."""
