"""Layers asked about every number of their range."""
