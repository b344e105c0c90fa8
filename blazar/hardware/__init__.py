"""What this machine has: processor, memory within the limits set for us, GPUs. One module per vendor."""

from blazar.hardware.machine import Machine, available_memory, gpus, probe, total_memory, usable_cores

__all__ = ["Machine", "available_memory", "gpus", "probe", "total_memory", "usable_cores"]
