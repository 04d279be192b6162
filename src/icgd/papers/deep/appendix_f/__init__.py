"""Weights that are looked up in the context, appendix F."""
