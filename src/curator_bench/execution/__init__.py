"""Run one entry: directories, datasets, processes, timeouts, result files. Independent of pytest and the database."""
