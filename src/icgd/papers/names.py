"""Names of experiments, for checks that must not load PyTorch first."""

from __future__ import annotations

import difflib

from icgd.errors import InvalidParameter

NAMES = (
    "cot-d",
    "deep-g1",
    "deep-g2",
    "deep-g3",
    "deep-h",
    "bridge-resources",
    "algo-fig2",
    "algo-fig3",
    "algo-fig4",
    "algo-fig5",
    "algo-nmt",
    "lsa-train",
)
"""Of all experiments, in the order of `registry.EXPERIMENTS`."""


def check_name(name: str) -> None:
    """Complain about an experiment there is not."""
    if name not in NAMES:
        near = difflib.get_close_matches(name, NAMES, 1)
        remedy = f"Did you mean {near[0]}?" if near else ""
        raise InvalidParameter("NAME", name, f"be one of {', '.join(NAMES)}", remedy=remedy)
