"""Is this machine fit to measure, and for what a matrix asks? Looks at it, and changes nothing."""
