"""Turns on what the tests of this repository need; the plugin itself is turned on by its entry point."""

pytest_plugins = ["pytester"]
