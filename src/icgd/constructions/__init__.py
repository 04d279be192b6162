"""Compilers, one file per mechanism."""

from icgd.constructions.compile import compile as compile
