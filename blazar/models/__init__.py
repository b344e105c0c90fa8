"""Models on disk: names, the catalogue, what headers say, where they come from."""
