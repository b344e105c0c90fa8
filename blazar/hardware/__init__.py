"""What this machine has: processor, memory within the limits set for us, GPUs. One module per vendor."""

from blazar.hardware.gpu import Gpu
from blazar.hardware.machine import (
    Machine,
    available_memory,
    gpu_memory_of,
    gpus,
    probe,
    total_memory,
    usable_cores,
)

__all__ = ["Gpu", "Machine", "available_memory", "gpu_memory_of", "gpus", "probe", "total_memory", "usable_cores"]
