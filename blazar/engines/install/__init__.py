"""Builds of engines on this machine: found, probed once each, remembered, installed and removed."""
