"""Told things, asks nobody: events, traces, metrics."""
