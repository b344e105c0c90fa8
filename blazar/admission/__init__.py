"""Who goes next: the asynchronous face of the native queue."""
