"""The children: one owner (``fleet``), states as a table, pure decisions, and one narrow door to the system."""
