"""The children: how they start, what state they are in, when they leave."""
