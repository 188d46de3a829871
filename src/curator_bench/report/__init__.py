"""Output for people: terminal lines, live progress, summaries. Runs come as RunRecord, from test reports."""
