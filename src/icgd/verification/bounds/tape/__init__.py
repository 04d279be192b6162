"""Rigorous bounds on what one round of a tape computes."""
