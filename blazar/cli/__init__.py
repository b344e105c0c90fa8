"""The command line: one file for each group of the help page."""
