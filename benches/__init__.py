"""What is measured, and against whom. Each bench has a smoke mode that the gate runs."""
