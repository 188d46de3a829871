"""The dashboard: a folder of static pages. Jinja makes them, so this is imported only when one is asked for."""
