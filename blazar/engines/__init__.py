"""What can run a model: one file per kind, and the choice between them."""
