"""A typed HTTP client of a running gateway."""

from blazar.client.client import Client
from blazar.client.stream import Stream

__all__ = ["Client", "Stream"]
