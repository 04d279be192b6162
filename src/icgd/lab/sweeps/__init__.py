"""Cells of work that can run anywhere and never twice, and sweeps of them."""
