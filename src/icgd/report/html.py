"""One self-contained page about a run: opens offline, requests nothing, prints well.

The page is made from a result (the content of result.json) and nothing else, so it can be made
again from the file at any time.
"""

from __future__ import annotations

import base64
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from icgd.report import least_squares, linear_model, stack
from icgd.report.figures import COLOURS, ROUNDS, all_figures, positive
from icgd.report.numbers import number, percent
from icgd.report.story import Story

LEAD = (
    "Every round the same layer read one example and wrote the network's new weights; beside it "
    "torch.optim.SGD trained the same network from the same start on the same examples."
)
BOUNDS = {
    "round_bound": (
        "Per round, rigorous",
        "One round of the transformer against one exact SGD round from the same weights, by affine "
        "arithmetic over every head error and rounding.",
    ),
    "global_bound": (
        "Whole run, rigorous",
        "The per-round bounds carried to the end through the Lipschitz constant of every round; it "
        "grows exponentially with the rounds and says nothing once it exceeds the weights themselves.",
    ),
    "paper_bound": (
        "Whole run, as in the paper",
        "Rounds times the error of one round; it assumes that a round never increases distances, "
        "which is false for networks, so it is shown for comparison and proves nothing.",
    ),
}
"""Title and one sentence for each of the three bounds."""


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
        ("Rounds above their bound", _over(result)),
        ("Range used, largest |s| / radius", percent(result.get("range_use"))),
        ("Units within rounding of a ReLU's kink", number(kink.get("count", 0))),
    ]
    if kink.get("first"):
        rows.append(("First of them", "round {}, layer {}, unit {}".format(*kink["first"])))
    return rows


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


def bound_rows(result: Mapping[str, Any]) -> list[dict[str, str]]:
    """The three bounds, each with the measured number it speaks about."""
    measured = {"round_bound": "max_round_error"}
    told = BOUNDS if result.get("method", "cot") == "cot" else stack.BOUNDS
    return [
        {
            "title": title,
            "why": why,
            "value": number(result[key]),
            "measured": number(result[measured.get(key, "max_error")]),
        }
        for key, (title, why) in told.items()
    ]


def flat_rows(values: Mapping[str, Any], prefix: str = "") -> list[tuple[str, str]]:
    """Nested settings as lines `outer.inner  value`."""
    rows: list[tuple[str, str]] = []
    for key, value in values.items():
        if isinstance(value, Mapping):
            rows += flat_rows(value, f"{prefix}{key}.")
        elif isinstance(value, (list, tuple)):
            rows.append((f"{prefix}{key}", ", ".join(map(str, value))))
        else:
            rows.append((f"{prefix}{key}", str(value)))
    return rows


def plots(result: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Plotly traces and axes for the curves a result has."""
    curves = result.get("curves") or {}
    axis = ROUNDS[result.get("method", "cot")]
    found = []
    loss, error = curves.get("loss") or {}, curves.get("error") or {}
    if loss.get("round"):
        found.append(
            {
                "id": "loss",
                "title": "Loss of both networks: same start, same rows",
                "x": axis,
                "y": "mean loss",
                "log": False,
                "traces": [
                    _trace("trained by torch.optim.SGD", loss, "sgd", COLOURS["sgd"], width=7),
                    _trace(
                        "trained by the frozen transformer", loss, "transformer",
                        COLOURS["transformer"],
                    ),
                ],
            }
        )  # fmt: skip
    if error.get("round"):
        found.append(
            {
                "id": "error",
                "title": "Error of every round, and its bound",
                "x": axis,
                "y": "largest weight difference",
                "log": True,
                "traces": [
                    _trace("bound of one round", error, "round_bound", COLOURS["bound"], log=True),
                    _trace("measured: one round", error, "round_error", COLOURS["transformer"],
                           log=True, mode="markers"),
                    _trace("measured: whole run so far", error, "error", COLOURS["drift"],
                           log=True, dash="dash"),
                ],
            }
        )  # fmt: skip
    return found


def _trace(
    name: str, curve: Mapping[str, Sequence[Any]], key: str, colour: str, *,
    log: bool = False, mode: str = "lines", width: float = 2, dash: str = "solid",
) -> dict[str, Any]:  # fmt: skip
    y = [None if math.isnan(v) else v for v in positive(curve[key])] if log else list(curve[key])
    return {
        "type": "scatter",
        "name": name,
        "mode": mode,
        "x": list(curve["round"]),
        "y": y,
        "line": {"color": colour, "width": width, "dash": dash},
        "marker": {"color": colour, "size": 4},
    }


def _over(result: Mapping[str, Any]) -> str:
    """Counted over all rounds; a thinned curve could hide one."""
    over = result.get("rounds_over_bound")
    return "not counted" if over is None else f"{over:,} of {result['rounds']:,}"


def story(result: Mapping[str, Any], figures: Mapping[str, bytes] | None = None) -> Story:
    """The story of a result, by what was trained."""
    if result.get("model") == "linear":
        return Story(
            title="Frozen looped transformers solved this least-squares problem in their context",
            lead="One frozen layer was applied to the same tokens again and again, once made for gradient "
            "descent and once for Newton's method; beside them the exact algorithms solved the same problem.",
            against=f"exact {least_squares.NAMES[result['optimizer']]}'s",
            rows=least_squares.result_rows(result),
            bounds=[],
            cost=cost_rows(result),
            plots=least_squares.plots(result),
            figures=least_squares.figures(result) if figures is None else figures,
            footer="Objectives are means of ½(w·x − y)² over all examples, in the units the model sees",
        )
    if result.get("model", "network") != "network":
        return Story(
            title=f"A frozen transformer fitted this {result['model']} model in its context",
            lead="Every step the same layer read the last block of the prompt, all examples and the "
            "current weights, and wrote the block with the next weights; beside it exact gradient descent "
            "and scikit-learn solved the same problem.",
            against="exact gradient descent's",
            rows=linear_model.result_rows(result),
            bounds=linear_model.bound_rows(result),
            cost=cost_rows(result),
            plots=linear_model.plots(result),
            figures=linear_model.figures(result) if figures is None else figures,
            footer="Objectives are means over all examples with every constant, as in docs/statistics.md, "
            "in the units the model sees",
        )
    return Story(
        title="A frozen transformer trained this network in its context",
        lead=stack.LEADS.get(str(result.get("method")), LEAD),
        against="SGD's",
        rows=result_rows(result),
        bounds=bound_rows(result),
        cost=cost_rows(result),
        plots=plots(result),
        figures=all_figures(result) if figures is None else figures,
        footer="Losses are means of ½|o − y|² over all examples, in the units the network sees",
    )


def render_report(result: Mapping[str, Any], figures: Mapping[str, bytes] | None = None) -> str:
    """The page as text.

    result   the content of result.json
    figures  PNG files by name, shown where scripts are off; drawn from the result if not given
    """
    from jinja2 import Environment, PackageLoader
    from plotly.offline import get_plotlyjs

    told = story(result, figures)
    environment = Environment(
        loader=PackageLoader("icgd.report"), autoescape=True, trim_blocks=True, lstrip_blocks=True
    )
    return environment.get_template("report.html.j2").render(
        result=result,
        story=told,
        rows={"Result": told.rows, "Cost": told.cost},
        over=_over(result),
        difference=number(result["max_error"]),
        details={
            "Configuration": flat_rows(result.get("config") or {}),
            "Versions": flat_rows(result.get("versions") or {}),
        },
        notes=list(result.get("notes") or []),
        pictures={name: base64.b64encode(png).decode() for name, png in told.figures.items()},
        plotly=get_plotlyjs(),
    )


def write_report(result: Mapping[str, Any], directory: Path) -> list[Path]:
    """Write report.html and its figures into an existing directory; gives back what was written."""
    figures = story(result).figures
    written = []
    for name, png in figures.items():
        (directory / name).write_bytes(png)
        written.append(directory / name)
    page = directory / "report.html"
    page.write_text(render_report(result, figures), encoding="utf-8")
    return [*written, page]
