"""The chat prompt."""
