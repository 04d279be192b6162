"""Loops: the same few layers again and again, regressions by gradient descent and Newton."""
