"""Operators learned instead of written, appendix D."""
