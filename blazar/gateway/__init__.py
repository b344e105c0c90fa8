"""HTTP: the shell, the guard, the exchange, and one folder for each dialect."""
