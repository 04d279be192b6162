"""Least squares on a representation by gradient descent."""
