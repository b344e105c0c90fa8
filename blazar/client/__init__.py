"""A typed HTTP client of a running gateway."""
