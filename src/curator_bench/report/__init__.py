"""What people see: terminal lines, live progress, summaries. Knows runs only as the builtin values reports carry."""
