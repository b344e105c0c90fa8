"""The one table of options, where it is read from, and how it is edited."""
