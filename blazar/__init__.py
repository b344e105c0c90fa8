"""Blazar: the control plane of a person's own inference machine."""
