"""Compilers, one file per mechanism."""

from icgd.constructions.compile import compile as compile
from icgd.constructions.fused_loop import fuse as fuse
