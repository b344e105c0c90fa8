"""The gate: every check of the project as a step of one run. ``python -m tests``."""
