"""Load through sockets: the bare engine, nginx and Blazar side by side in one run."""
