"""Finds the commit or environment that is slower: runs pytest in children, moves checkouts, asks `verdict`."""
