"""Where models come from: one file per source."""
