"""Runs one entry: directories, datasets, processes, timeouts, result files. Knows nothing of pytest or the database."""
