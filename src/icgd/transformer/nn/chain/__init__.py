"""Layers of the chain of thought."""
