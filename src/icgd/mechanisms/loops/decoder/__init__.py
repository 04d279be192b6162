"""A causal loop: every token sees only tokens before it."""
