"""Compilers, one folder per family of constructions."""

from icgd.mechanisms.compiler import compile as compile
from icgd.mechanisms.loops.regression.fused import fuse as fuse
