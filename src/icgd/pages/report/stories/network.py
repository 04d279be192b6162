"""The report on a network trained in context: losses, errors of rounds with bounds, whole runs."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from icgd.base.construction import by_method
from icgd.pages.report.chart import COLOURS, Bars, Chart, Number, Series, drawable, positive
from icgd.pages.report.stories import stack
from icgd.pages.report.stories.numbers import number, range_row

ROUNDS = {"epochs": "round (one example each)", "steps": "step (all rows)"}
"""What one round is, by how runs are counted."""


def rounds_are(result: Mapping[str, Any]) -> str:
    """What one round of this run is."""
    return ROUNDS[by_method(result.get("method")).rounds]


BOUNDS = {
    "round_bound": (
        "Per round, rigorous",
        "One round of the transformer against one exact SGD round from the same weights, by affine "
        "arithmetic over every head error and rounding.",
    ),
    "global_bound": (
        "Whole run, rigorous",
        "The per-round bounds carried to the end through the Lipschitz constant of every round; it "
        "grows exponentially with the rounds and is vacuous once it exceeds the weights themselves.",
    ),
    "paper_bound": (
        "Whole run, as in the paper",
        "Rounds times the error of one round; it assumes that a round never increases distances, "
        "which is false for networks, so it is shown for comparison and proves nothing.",
    ),
}
"""Title and one sentence for each of the three bounds."""
DIFFERENCE = "largest |Δw|"
"""Label of axes: the largest absolute difference of any weight or coefficient."""


def result_rows(result: Mapping[str, Any]) -> list[tuple[str, str]]:
    """What came out, in words."""
    kink = result.get("near_kink") or {}
    rows = [
        ("Mean loss before training", number(result.get("loss_before"))),
        ("Mean loss after, trained by the transformer", number(result.get("loss_after"))),
        ("Mean loss after, trained by SGD", number(result.get("loss_after_sgd"))),
        ("R² on the training data, transformer", number(result.get("r2_transformer"))),
        ("R² on the training data, SGD", number(result.get("r2_sgd"))),
        ("Largest weight difference over the run", number(result["max_error"])),
        ("Largest error of one round", number(result["max_round_error"])),
        ("Rounds above their bound", over(result)),
        range_row(result),
        ("Units within rounding of a ReLU's kink", number(kink.get("count", 0))),
    ]
    if kink.get("first"):
        rows.append(("First of them", "round {}, layer {}, unit {}".format(*kink["first"])))
    return rows


def over(result: Mapping[str, Any]) -> str:
    """Counted over all rounds; a thinned curve could hide one."""
    count = result.get("rounds_over_bound")
    return "not counted" if count is None else f"{count:,} of {result['rounds']:,}"


def bound_rows(result: Mapping[str, Any]) -> list[dict[str, str]]:
    """The three bounds, each with the measured number it speaks about."""
    measured = {"round_bound": "max_round_error"}
    one_row = by_method(result.get("method")).rounds == "epochs"
    bounds = BOUNDS if one_row else stack.BOUNDS
    return [
        {
            "key": key,
            "title": title,
            "why": why,
            "value": number(result[key]),
            "measured": number(result[measured.get(key, "max_error")]),
        }
        for key, (title, why) in bounds.items()
    ]


def loss_chart(curve: Mapping[str, Sequence[Number]], rounds_are: str = ROUNDS["epochs"]) -> Chart:
    """Loss of the network trained by the transformer and of the one trained by SGD, overlaid.

    curve  "round", "transformer", "sgd": equally long; the loss is the mean of 1/2 |o - y|^2
    """
    rounds = curve["round"]
    return Chart(
        "loss",
        "Loss of both networks: same start, same rows",
        rounds_are,
        "mean of ½|o − y|²",
        (
            Series(
                "trained by torch.optim.SGD",
                rounds,
                curve["sgd"],
                COLOURS["sgd"],
                width=5,
                faint=True,
            ),
            Series(
                "trained by the frozen transformer",
                rounds,
                curve["transformer"],
                COLOURS["transformer"],
            ),
        ),
    )


def error_chart(curve: Mapping[str, Sequence[Number]], rounds_are: str = "round") -> Chart:
    """Error of every single round on a logarithmic axis, with its bound.

    curve  "round", "round_error", "round_bound", "error": equally long; the largest absolute
           difference of any weight
    """
    rounds = curve["round"]
    return Chart(
        "error",
        "Error of every round, and its bound",
        rounds_are,
        DIFFERENCE,
        (
            Series("bound of one round", rounds, curve["round_bound"], COLOURS["bound"]),
            Series(
                "measured: whole run so far", rounds, curve["error"], COLOURS["drift"], "dash", 1.2
            ),
            Series(
                "measured: one round",
                rounds,
                curve["round_error"],
                COLOURS["transformer"],
                "points",
            ),
        ),
        log_y=True,
        note=zeros_said(curve["round_error"], "rounds"),
    )


def zeros_said(errors: Sequence[Number], what: str) -> str:
    """What a logarithmic axis cannot show.

    >>> zeros_said([0.0, 1e-16], "rounds")
    'Not drawn: rounds whose error is exactly 0, which a logarithmic axis cannot show (1 of 2 points).'
    """
    silent = sum(1 for e in errors if e == 0)
    if not silent:
        return ""
    return (
        f"Not drawn: {what} whose error is exactly 0, which a logarithmic axis cannot show "
        f"({silent:,} of {len(errors):,} points)."
    )


def run_chart(curve: Mapping[str, Sequence[Number]], rounds_are: str = "round") -> Chart:
    """The difference to SGD's weights so far, with both bounds of a whole run as far as they speak."""
    rounds = curve["round"]
    drawn = [
        v for key in ("error", "paper_bound") for v in positive(curve[key]) if not math.isnan(v)
    ]
    top = max(10.0, max(drawn, default=1.0))
    beyond = any(v is None or v > top for v in curve["global_bound"])
    return Chart(
        "run",
        "Difference over the whole run, and its bounds",
        rounds_are,
        DIFFERENCE,
        (
            Series("rigorous bound", rounds, curve["global_bound"], COLOURS["bound"]),
            Series("the paper's bound", rounds, curve["paper_bound"], COLOURS["sgd"], "dash"),
            Series("measured", rounds, curve["error"], COLOURS["transformer"]),
        ),
        log_y=True,
        top=top,
        note="The rigorous bound continues above the figure; it is vacuous once it exceeds the weights."
        if beyond
        else "",
    )


def charts(result: Mapping[str, Any]) -> list[Chart]:
    """Charts of the curves a result has."""
    curves, axis = result.get("curves") or {}, rounds_are(result)
    drawn = []
    loss, error = curves.get("loss") or {}, curves.get("error") or {}
    if loss.get("round"):
        drawn.append(loss_chart(loss, axis))
    if error.get("round"):
        drawn.append(error_chart(error, axis))
        if "global_bound" in error and "paper_bound" in error:
            drawn.append(run_chart(error, axis))
    return [drawable(chart) for chart in drawn]


def cost_rows(result: Mapping[str, Any]) -> list[tuple[str, str]]:
    """What it took."""
    names = {
        "rounds": "Rounds",
        "blocks": "Blocks written (calls of the layer)",
        "live_blocks_max": "Blocks kept at a time",
        "dense_flops": "FLOPs with literal matrices",
        "structured_flops": "FLOPs with structure used",
        "seconds": "Seconds, verification included",
    }
    return [(text, number(result[key])) for key, text in names.items() if key in result]


EXECUTORS = {
    "dense_flops": "literal matrices (dense executor)",
    "structured_flops": "structure used (structured executor)",
}


def cost_bars(result: Mapping[str, Any]) -> Bars:
    """FLOPs of the run with literal matrices and with the structured executor."""
    return Bars(
        "cost",
        f"{result['blocks']:,} layer calls in {result['rounds']:,} rounds",
        "floating-point operations of the whole run (matrix products)",
        ("",),
        {text: (result[key],) for key, text in EXECUTORS.items()},
        dict(zip(EXECUTORS.values(), (COLOURS["sgd"], COLOURS["transformer"]), strict=True)),
    )


def has_cost(result: Mapping[str, Any]) -> bool:
    """Whether operations were counted."""
    return all(key in result for key in (*EXECUTORS, "blocks", "rounds"))
