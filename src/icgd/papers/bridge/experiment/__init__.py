"""Depth, width and error of stacks measured."""
