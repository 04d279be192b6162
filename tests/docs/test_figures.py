"""The laws that docs/spectral_head.md draws, against sums with sixty digits."""

from __future__ import annotations

import math
from itertools import pairwise


def test_the_theorem_bounds_the_head_and_both_laws_hold(tool):
    found = tool("docs_figures").laws((24, 28, 32))
    for name in ("fixed", "best"):
        for measured, promised in zip(
            found[name]["measured"], found[name]["promised"], strict=True
        ):
            assert measured <= promised <= 1.1 * measured
    # Four more tokens: e^-pi with width and margin balanced; more and more of them with a fixed margin.
    best, fixed = found["best"]["measured"], found["fixed"]["measured"]
    for before, after in pairwise(best):
        assert math.isclose(after / before, math.exp(-math.pi), rel_tol=0.02)
    assert fixed[2] / fixed[1] < 0.6 * fixed[1] / fixed[0]


def test_the_machine_is_drawn_from_a_tape(tool):
    picture = tool("docs_machine")
    drawn = picture.machine(picture.example_tape())
    assert picture.PICTURE.read_text(encoding="utf-8") == drawn, "python -m tools.docs_machine"


def test_figures_are_drawn(tool):
    figures = tool("docs_figures")
    for made in (
        figures.block_figure,
        figures.mask_figure,
        figures.router_figure,
        figures.head_figure,
    ):
        assert made().startswith(b"\x89PNG")
