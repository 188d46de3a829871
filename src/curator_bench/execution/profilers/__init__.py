"""Profilers, which look inside an extra run of an entry: py-spy, memray, and those of others."""
