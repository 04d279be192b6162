"""Transformer pieces: one attention kernel, feed-forward layers on named slots, grid attention."""
