"""Rounds compiled to plain tensor operations."""
