"""Tapes: typed instructions on registers, what one frozen layer executes step by step."""
