"""Shows a dashboard and the sessions that run to one person, over HTTP on this machine."""
