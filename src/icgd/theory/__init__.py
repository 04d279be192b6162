"""Formulas in plain floats, one function per statement, with their inverses."""
