"""What this machine has: one module per kind of device."""
