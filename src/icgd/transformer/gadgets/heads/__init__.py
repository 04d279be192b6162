"""Heads: attention that reads a number off a grid, or multiplies."""
