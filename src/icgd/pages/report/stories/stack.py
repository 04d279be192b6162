"""The report on a network trained by a stack of layers: gradient descent on all rows a step."""

from __future__ import annotations

BOUNDS = {
    "round_bound": (
        "Per step",
        "One step of the transformer against one exact step from the same weights: certificates of every "
        "fit, the slopes of the activations and rounding, carried through the whole step.",
    ),
    "global_bound": (
        "Whole run",
        "The same with uncertain weights, step after step; it grows exponentially and is vacuous once it "
        "exceeds the weights themselves.",
    ),
    "paper_bound": (
        "Whole run, as in the paper",
        "Errors of single steps, each multiplied by 1 + lr L_f for every later step, with the largest "
        "curvature L_f met; the paper prints the number of examples in place of lr.",
    ),
}
"""Title and one sentence for each of the three bounds."""
