"""Collection of matrices: find their files, load them once per process, and turn entries into pytest items."""
