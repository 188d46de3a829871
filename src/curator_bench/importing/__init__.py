"""Import of runs recorded elsewhere: one module per format. A file's format is recognised from its contents."""
