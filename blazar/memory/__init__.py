"""What a model needs and what fits: formulas, placement, and the compiled grid."""
