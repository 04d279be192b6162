"""Experiments: one file per figure of a paper, cells that can be run anywhere and never twice."""
