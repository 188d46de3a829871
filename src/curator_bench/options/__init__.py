"""Command-line and ini options, the settings they make, and the folder of the project they are for."""
