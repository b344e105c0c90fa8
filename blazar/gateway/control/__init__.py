"""Blazar's own routes, and the engine utilities that need no dialect."""
