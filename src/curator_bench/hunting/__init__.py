"""Finds out which commit or which environment is slower: runs pytest in children, moves checkouts, asks `verdict`."""
