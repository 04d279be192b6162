"""The figures of [ALGO]."""
