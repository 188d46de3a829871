"""Files that others read and write too: safe access, locks, strict JSON. Standard library only."""
