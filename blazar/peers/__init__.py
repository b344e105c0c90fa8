"""Other machines that the owner wrote into the config."""
