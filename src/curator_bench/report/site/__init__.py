"""The dashboard: a folder of static pages. It needs Jinja, so it is imported only when a dashboard is built."""
