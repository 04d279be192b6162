"""Decompositions that leave few operations: what the machine has an instruction for."""
